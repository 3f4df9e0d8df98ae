"""What a run says at its end: the terminal's table, the policy to deploy, the trial, and sentences that explain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.experiments import Store, as_spec
from safespot.experiments.settings import compared
from safespot.experiments.summary import Estimate
from safespot.report import (
    findings,
    proofs,
    results,
    sections,
    tables,
    terminal,
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


def test_what_is_compared_without_a_name() -> None:
    epochs, known, spot, uniform = compared([], [], {})
    assert epochs == {"name": "spot-epochs", "options": {}, "grid": {}}
    assert known["options"] == {"thresholds": "known"}
    assert spot == {
        "name": "spot",
        "options": {"rho": "slater", **ss.Spot.advised},
    }
    assert uniform == {"name": "uniform", "options": {}}


def test_options_go_to_those_that_take_them() -> None:
    made = compared(["spot", "spot-epochs"], [0.5], {"bonus_scale": 1.0, "delta": 0.1})
    assert [(each["name"], each["options"].get("bonus_scale")) for each in made] == [
        ("spot", 1.0), ("spot", 1.0), ("spot-epochs", None), ("spot-epochs", None),
    ]  # fmt: skip
    assert {each["options"]["delta"] for each in made} == {0.1}
    with pytest.raises(ss.errors.InvalidOption, match="unknown option 'bonus_scal'"):
        compared([], [], {"bonus_scal": 1.0})


def test_lines_have_the_shortest_names_that_tell_them_apart(study: findings.Study) -> None:
    assert [line.name for line in study.lines] == [
        "pessimistic", "ξ = 0.5", "optimistic", "limits known", "spot", "uniform",
    ]  # fmt: skip
    assert study.stances == [0, 1, 2]


@pytest.mark.parametrize("columns", [80, 60])
def test_a_screen_has_room_for_it(
    study: findings.Study, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal.print_study(study)
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= columns
    if columns == 80:
        assert len(shown) <= 24  # and the place of the report
        for line in study.lines:  # no row is broken
            (row,) = [text for text in shown if text.startswith(line.name + "  ")]
            assert "kept" in row or "broken" in row
    else:  # two lines, and no word of it broken
        for line in study.lines:
            (k,) = [k for k, text in enumerate(shown) if text.startswith(line.name + "  ")]
            assert {"kept", "broken"} & set(shown[k + 1].split())
            assert " to " in shown[k + 1]
    for word in ("Reward", "Violation", "Certified", "To deploy"):
        assert any(word in text for text in shown), word


def test_a_screen_tells_what_keeps_runs_from_being_good(
    study: findings.Study, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    found = [
        {"what": f"Fault {k} is there.", "option": f"option_{k}", "advice": "Change it."}
        for k in range(9)
    ]
    ill = replace(study.lines[4], abouts=({**study.lines[4].abouts[0], "diagnosis": found},))
    others = [
        replace(line, abouts=tuple({**about, "diagnosis": []} for about in line.abouts))
        for line in study.lines
    ]
    lines = (*others[:4], ill, *others[5:])
    one = findings.Study(study.name, study.setting, study.episodes, lines)
    monkeypatch.setenv("COLUMNS", "80")
    terminal.print_study(one)
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    flowing = " ".join(text.split())
    assert "spot: Fault 0 is there. Option: option_0." in flowing
    assert "more of this kind in the report, with advice." in flowing
    page = sections.main(one, tables.every(one, EMPTY), 0)
    assert page.count("Change it.") == 9
    assert "<strong>option_8</strong>" in page
    assert "What keeps them" not in sections.main(study_without(one), tables.every(one, EMPTY), 0)


class Empty:
    """A store that keeps no policies."""

    def policy(self, run: str, which: str = "policy") -> None:
        return None


EMPTY: Any = Empty()


def study_without(study: findings.Study) -> findings.Study:
    """The same, and all is well."""
    lines = tuple(
        replace(line, abouts=tuple({**about, "diagnosis": []} for about in line.abouts))
        for line in study.lines
    )
    return findings.Study(study.name, study.setting, study.episodes, lines)


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


def test_nothing_is_tried_where_something_is_certified(folder: Path, study: findings.Study) -> None:
    assert trials.try_proposal(Store(folder), study) is None


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


class Fixed(findings.Study):
    """A study whose lines kept or broke what a test wants."""

    broke: tuple[str, ...] = ()

    def shortfall(self, line: findings.Line, i: int) -> Estimate:
        return Estimate(1.0 if line.name in self.broke else -1.0, math.nan, math.nan, 1)


@pytest.mark.parametrize(
    ("broke", "explained"),
    [(("limits known",), True), (("limits known", "pessimistic"), False), ((), False), (("spot",), False)],
)  # fmt: skip
def test_the_surprise_is_explained_where_it_occurs(
    study: findings.Study, broke: tuple[str, ...], explained: bool
) -> None:
    fixed = Fixed(study.name, study.setting, study.episodes, study.lines)
    object.__setattr__(fixed, "broke", broke)
    assert bool(words.surprise(fixed)) == explained
    if explained:
        assert "Why limits known broke it and pessimistic did not" in words.surprise(fixed)[0]


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1400])
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


def test_a_model_of_ones_own_goes_by_the_name_of_its_file(study: findings.Study) -> None:
    assert "learned “store.safetensors” (1 state, 2 actions" in words.what(study)
