"""What a run says at its end: the terminal's table, the policy to deploy, the trial, and sentences that explain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.experiments import Store, as_spec
from safespot.experiments.settings import compared
from safespot.report import (
    findings,
    proofs,
    results,
    tables,
    trials,
    write_report,
)
from safespot.report import text as words
from tests.support.browsing import Tab
from tests.support.sweeping import sweep_inline

STANCES: list[str | float] = ["pessimistic", 0.5, "optimistic"]


# Every policy keeps its limit with ease, so that something is certified soon.
EASY = ss.CMDP([[[1.0], [1.0]]], [[0.2, 0.8]], [[[0.9, 0.8]]], [0.4], horizon=4)


def made(path: Path, episodes: int, **spec: Any) -> findings.Study:
    model = path.with_suffix(".safetensors")
    EASY.save(model)
    whole = {
        "episodes": episodes, "seeds": 2, "problem": {"name": "file", "options": {"path": str(model)}},
        "learners": compared([], STANCES, {}), **spec,
    }  # fmt: skip
    (study,) = findings.read(sweep_inline(path, as_spec(whole).runs()))
    return study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outcome") / "store"


@pytest.fixture(scope="module")
def study(folder: Path) -> findings.Study:
    """What `safespot run` does under three stances."""
    return made(folder, 600)


def test_the_table_of_the_terminal_is_the_store(study: findings.Study) -> None:
    for row, line in zip(results.short_rows(study), study.lines, strict=True):
        _, reward, limit, violation, certified = row
        share = line.late("value").mean / study.optimum(study.episodes)
        assert reward.text.endswith(f"{100 * share:.0f}\N{NO-BREAK SPACE}%")
        assert limit.kept == study.kept(line)[0]
        exact, _, low, _, high = (
            violation.text.replace("−", "-").strip(")").replace("(", "( ").split()
        )
        assert float(low) <= float(exact) <= float(high)
        firsts = [a["certified"]["first"] for a in line.abouts if a.get("certified")]
        assert (certified.text == "–") == (not firsts)


def test_what_is_deployed_is_what_was_certified(folder: Path, study: findings.Study) -> None:
    line = study.lines[0]
    found = line.abouts[0]["certified"]
    policy = Store(folder).policy(line.group.runs[0], "certified")
    assert policy is not None
    truth = ss.evaluate(study.problem.cmdp, policy)
    assert truth.value == pytest.approx(found["value"])
    assert truth.constraints[0] >= study.problem.cmdp.limits[0]
    assert ss.Certificate.from_dict(found["certificate"]).covers(policy)
    text = " ".join(proofs.to_deploy(study))
    assert f"after episode {found['episode']:,}" in text
    assert "pessimistic (seed 0)" in text
    proposal = Store(folder).policy(line.group.runs[0], "proposal")
    assert proposal is not None
    assert ss.evaluate(study.problem.cmdp, proposal).value == pytest.approx(
        line.abouts[0]["proposal"]["value"]
    )
    with pytest.raises(ss.errors.UnknownName, match="did you mean `proposal`"):
        Store(folder).policy(line.group.runs[0], "proposals")


def test_the_epochs_are_those_of_the_learner(folder: Path, study: findings.Study) -> None:
    problem = ss.Problem(EASY)
    learner = ss.SpotEpochs(**problem.interface, episodes=600)
    ss.learn(problem, learner, seed=0)
    table = tables.epochs(study)
    mine = [k for k, group in enumerate(table["group"]) if group == 0]
    assert [table["first"][k] for k in mine] == [part.first for part in learner.history]
    assert [table["verdict"][k] for k in mine] == [part.verdict for part in learner.history]
    assert table["last"][mine[-1]] == 600
    assert set(table["group"]) == {0, 1, 2, 3}  # SPOT and the uniform policy have no phases


def test_what_nothing_certified_is_tried(tmp_path: Path) -> None:
    young = made(tmp_path / "s", 4, learners=compared(["spot-epochs"], [], {}), seeds=1)
    found = trials.try_proposal(Store(tmp_path / "s"), young)
    assert found is not None
    assert found.proposed
    said = " ".join(found.sentences())
    outcome = "not decided" if "unknown" in found.certificate.verdict else "proven"
    assert f"{outcome}" in said
    assert "spot-epochs had the policy that it proposes tried" in said
    assert found.as_dict()["certificate"]["verdict"] == list(found.certificate.verdict)


def test_equal_curves_are_said_to_be_equal(study: findings.Study) -> None:
    line = study.lines[0]
    double = replace(line, name="its double")
    away = {**line.columns, "value": line.columns["value"] + np.ptp(line.columns["value"]) / 100}
    other = replace(line, name="another", columns=away)
    three = findings.Study(study.name, study.setting, study.episodes, (line, double, other))
    assert words.equal(three, ["value", "regret"]) == [
        "Pessimistic and its double are equal here: their curves lie on each other."
    ]
    assert "another" in words.equal(three, ["regret"])[0]


@pytest.fixture
def tab(folder: Path, study: findings.Study, browser: Any) -> Iterator[Tab]:
    opened = Tab(browser, write_report(Store(folder)).resolve().as_uri())
    yield opened
    assert opened.wrong == []
    opened.context.close()


def test_the_page_shows_epochs_and_meter(tab: Tab) -> None:
    assert "✓" in tab.marks("epochs", "svg text")
    assert len(tab.marks("evidence-0")) > 6
    assert "To deploy" in tab.page.locator(".verdict").first.inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (800, "dark"), (1400, "light")])
def test_no_two_labels_of_a_chart_overlap(
    folder: Path, study: findings.Study, browser: Any, width: int, scheme: str
) -> None:
    path = write_report(Store(folder))
    tab = Tab(browser, path.resolve().as_uri(), width=width, color_scheme=scheme)
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.page.evaluate(OVERLAPS) == []
    if width == 390:  # a phone shows the verdict at once
        box = tab.page.locator(".verdict").first.bounding_box()
        assert box is not None
        assert box["y"] < 400
    tab.context.close()


# Pairs of texts of one chart whose boxes share more than a pixel.
OVERLAPS = """() => [...document.querySelectorAll("main:not([hidden]) figure")].flatMap((figure) => {
  const boxes = [...figure.querySelectorAll("svg text")]
    .filter((text) => text.textContent.trim() && !text.closest("[opacity='0']") && !"✓✗".includes(text.textContent))
    .filter((text) => getComputedStyle(text).opacity !== "0")
    .map((text) => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([a, p], k) => boxes.slice(k + 1)
    .filter(([b, q]) => p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1)
    .map(([b]) => `${figure.dataset.chart}: ${a} / ${b}`));
})"""
