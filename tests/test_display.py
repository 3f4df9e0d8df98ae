"""How objects show themselves: short lines, and tables that notebooks can trust."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import safespot as ss
from safespot.display import Displayed, curves, intervals, line, said, table

LONGEST = 250  # characters of a line


def shown() -> Iterator[Any]:
    """One of every kind of object that a user meets."""
    problem = ss.problems.make("triage")
    cmdp, noise = problem.cmdp, ss.streams(seed=0)
    best = ss.solve(cmdp)
    learner = ss.Uniform(**problem.interface, episodes=40)
    run = ss.learn(problem, learner)
    yield from (problem, cmdp, problem.signals, problem.names, best, ss.slater(cmdp))
    yield from (ss.evaluate(cmdp, best.policy), learner, run, run.evidence)
    yield from (ss.SafetyMeter(problem.interface), ss.SafetyAlarm(problem.interface))
    yield ss.certify(problem, best.policy, episodes=20)
    yield ss.certify(run)
    yield ss.gym.BlackBox(ss.gym.ProblemEnv("triage"))
    yield ss.gym.Ending(reward=0, constraints=1)
    yield ss.gym.evaluate_policy(ss.gym.ProblemEnv("triage"), best.policy, 5)
    yield ss.play(problem, best.policy, noise, 1)


def test_every_object_is_a_short_line_and_a_table() -> None:
    for each in shown():
        assert len(repr(each)) <= LONGEST, repr(each)
        assert "\n" not in repr(each)
        html = each._repr_html_()
        assert html.startswith("<div><table>")
        assert html.endswith("</div>")


def test_a_value_is_said_in_few_characters() -> None:
    assert said(1234567) == "1,234,567"
    assert said(np.float64(1.23456)) == "1.235"
    assert said(float("nan")) == "–"
    assert said(np.arange(3)) == "[0, 1, 2]"
    assert said(np.zeros((14, 25, 5))) == "array 14×25×5"
    assert said(np.array(2.0)) == "2"
    assert said(["a"] * 9) == "9 entries"
    assert len(said("x" * 1000)) == 60
    assert len(said(object())) <= 60
    assert line("Thing", {}) == "<Thing>"
    assert line("Thing", {"big_part": True}) == "<Thing big part True>"


def test_names_are_escaped() -> None:
    html = table("T", {"<b>": "<script>alert(1)</script>"})
    assert "<script>" not in html
    assert "&lt;b&gt;" in html
    assert "<i>" not in curves([1, 10], {"<i>": [0.0, 1.0]})
    assert "<i>" not in intervals({"<i>": (0.0, 1.0)})


def test_curves_lie_within_their_picture() -> None:
    assert curves([], {"a": []}) == ""
    assert curves([1.0], {"a": [float("nan")]}) == ""
    drawn = curves([1, 10, 100], {"a": [0.0, 5.0, 10.0]})
    assert 'points="0.0,70.0 120.0,35.0 240.0,0.0"' in drawn
    assert "0 to 10" in drawn


def test_what_has_nothing_to_tell_is_its_name() -> None:
    class Plain(Displayed):
        pass

    assert repr(Plain()) == "<Plain>"
    assert "Plain" in Plain()._repr_html_()
