"""What commands take and what they answer, without processes of their own."""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import safespot as ss
from safespot import cli
from safespot.cli import given
from safespot.cli.output import print_json, write_policy
from safespot.experiments import Swept, as_spec, read_spec
from safespot.report.server import Server
from safespot.service.desk import Settings
from tests.support.sweeping import sweep_inline


def told(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli.app, list(words), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout


def answer(*words: str, code: int = 0) -> Any:
    return json.loads(told(*words, "--json", code=code))


# --- What a command is given


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("1.0", 1), (" 2k ", 2000), ("3,000", 3000), ("0.5m", 500_000)]
)
def test_a_count_is_any_whole_number_from_one_on(text: str, number: int) -> None:
    assert given.count(text) == number


def test_options_are_toml_where_they_can_be() -> None:
    words = ["a=1", " b = [1, 2.5]", "c=true", 'd="x"', "e=plain words", "f="]
    assert given.parse_options(words) == {
        "a": 1, "b": [1, 2.5], "c": True, "d": "x", "e": "plain words", "f": "",
    }  # fmt: skip
    assert given.parse_options(None) == {}


@pytest.mark.parametrize("text", ["a", "=1", " =1", ""])
def test_an_option_has_a_name_and_a_value(text: str) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="NAME=VALUE"):
        given.parse_options(["b=2", text])


def test_a_guard_is_made_of_a_budget_and_a_baseline(tmp_path: Path) -> None:
    policy = [[0.5, 0.5], [1.0, 0.0]]
    (tmp_path / "safe.json").write_text(json.dumps(policy))
    np.save(tmp_path / "safe.npy", policy)
    assert given.as_guard(None, None) == given.as_guard([], None) == {}
    assert given.as_guard([3.0], None) == {"guard": {"baseline": "slater", "budget": 3.0}}
    two = {"guard": {"baseline": "slater", "budget": [3.0, 4.0]}}
    assert given.as_guard([3.0, 4.0], "slater") == two
    for name in ("safe.json", "safe.npy"):
        own = given.as_guard([3.0], str(tmp_path / name))
        assert own == {"guard": {"baseline": policy, "budget": 3.0}}


def test_a_baseline_alone_is_no_guard() -> None:
    with pytest.raises(ss.errors.InvalidOption, match="--budget must be a finite number, got nan"):
        given.as_guard([math.nan], None)
    with pytest.raises(ss.errors.InvalidOption, match="--budget"):
        given.as_guard(None, "slater")


@pytest.mark.parametrize("name", ["absent.json", "absent.npy", "folder.json", "words.json"])
def test_a_policy_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "words.json").write_text("words")
    with pytest.raises(ss.errors.InvalidFile, match=name):
        given.read_policy(str(tmp_path / name))


def test_one_thing_that_is_wrong_is_itself_and_several_are_a_list() -> None:
    def fails(problem: ss.SafespotError) -> Any:
        raise problem

    first, second = ss.errors.UnknownName("no such name."), ss.errors.InvalidFile("no such file.")
    assert given.all_of(a=lambda: 1, b=lambda: 2) == {"a": 1, "b": 2}
    with pytest.raises(ss.errors.UnknownName) as one:
        given.all_of(a=lambda: 1, b=lambda: fails(first))
    assert one.value is first
    with pytest.raises(ss.errors.InvalidOption) as both:
        given.all_of(a=lambda: fails(first), b=lambda: fails(second))
    assert str(both.value) == "several things are wrong:\n  no such name.\n  no such file."


def test_a_target_is_a_problem_or_a_file(tmp_path: Path) -> None:
    machine = ss.problems.make("machine").cmdp
    machine.save(tmp_path / "own.safetensors")
    for target in ("machine", str(tmp_path / "own.safetensors")):
        np.testing.assert_array_equal(given.read_target(target, {}).rewards, machine.rewards)
    (tmp_path / "model.txt").write_text("S = 3")
    with pytest.raises(ss.errors.InvalidFile, match=r"model\.txt"):  # it is there, and is no model
        given.read_target(str(tmp_path / "model.txt"), {})
    with pytest.raises(ss.errors.InvalidFile, match="file not found"):  # it is called like a model
        given.read_target(str(tmp_path / "absent.npz"), {})
    with pytest.raises(ss.errors.UnknownName, match="no file of that name"):
        given.read_target("absent", {})


# --- How it answers


def test_an_answer_is_json_that_every_program_reads() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        print_json({"optimum": float("nan")})


def test_policies_are_written_as_arrays_or_as_lists(tmp_path: Path) -> None:
    policy = np.array([[[0.25, 0.75]]])
    for name in ("a.npy", "a", "a.json"):
        write_policy(tmp_path / name, policy)
    for name in ("a.npy", "a"):
        np.testing.assert_array_equal(np.load(tmp_path / name), policy)
    assert json.loads((tmp_path / "a.json").read_text()) == policy.tolist()


def test_problems_are_listed_with_their_sizes() -> None:
    lines = told("problems").splitlines()
    assert lines[0].split()[:5] == ["problem", "S", "A", "H", "m"]
    cmdp = ss.problems.make("machine").cmdp
    (line,) = [line for line in lines if line.startswith("machine ")]
    assert line.split()[1:5] == [str(getattr(cmdp, size)) for size in "SAHm"]


def test_a_problem_that_needs_an_extra_is_listed_with_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lacks(name: str, **options: Any) -> Any:
        raise ss.errors.MissingPackage("it needs another package.")

    monkeypatch.setattr(ss.problems, "make", lacks)
    rows = answer("problems")
    assert [row["name"] for row in rows] == ss.problems.names()
    assert all(row["meaning"].endswith(" (it needs another package.)") for row in rows)
    assert not any("S" in row for row in rows)


def limits_said(text: str) -> list[list[float]]:
    """The numbers of every line about a limit."""
    return [
        [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", line)]
        for line in text.splitlines()
        if line.startswith("limit ")
    ]


def test_a_problem_is_described_in_words_and_numbers() -> None:
    text = told("problems", "machine")
    found, cmdp = answer("problems", "machine"), ss.problems.make("machine").cmdp
    assert text.startswith(ss.problems.story("machine"))
    sizes = f"S = {cmdp.S} states, A = {cmdp.A} actions, H = {cmdp.H} steps, m = {cmdp.m} limits"
    optima = (
        f"optimum {found['optimum']:.6g} within the limits, {found['unconstrained']:.6g} without"
    )
    assert {sizes, optima} <= set(text.splitlines())
    assert limits_said(text) == [
        [*(float(f"{each[name]:.6g}") for name in ("value", "limit")), float(f"{each['multiplier']:.4g}")]
        for each in found["limits"]
    ]  # fmt: skip
    assert [each["name"] for each in found["limits"]] == ["limit of strain"]
    assert "\nlimit of strain: 1 <= 1, multiplier 3\n" in text
    assert "\nlimit 0: " in told("problems", "random", "-o", "states=2")


def test_a_solution_is_said_in_words(tmp_path: Path) -> None:
    text, solution = told("solve", "machine"), ss.solve(ss.problems.make("machine").cmdp)
    assert text.startswith(f"optimum {solution.value:.10g}, certified within ")
    ((value, limit, price),) = limits_said(text)
    assert value == pytest.approx(solution.constraints[0], rel=1e-5)
    assert limit == 1.0
    assert price == pytest.approx(solution.multipliers[0], rel=1e-3)
    assert not list(tmp_path.iterdir())


# --- Runs and sweeps, done in this process


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Sweeps without processes; what is put in here is said to have failed."""
    failed: dict[str, str] = {}

    def sweep(spec: Any, out: Path, **where: Any) -> Swept:
        runs = (read_spec(spec) if isinstance(spec, Path) else as_spec(spec)).runs()
        store = sweep_inline(out, runs)
        return Swept(store, tuple(run.id for run in runs if run.id not in failed), failed)

    monkeypatch.setattr("safespot.experiments.sweep", sweep)
    return failed


RUN = ("run", "bandit", "--learner", "spot", "--episodes", "40", "--seeds", "1")


@pytest.mark.usefixtures("inline")
def test_a_run_without_a_place_makes_a_store_of_its_problems_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = answer(*RUN)
    assert (found["store"], found["report"]) == ("safespot-bandit", "safespot-bandit/report.html")
    assert found["finished"] == 2  # limits learned, and limits known
    (study,) = found["studies"]
    assert [line["name"] for line in study["lines"]] == ["spot", "limits known"]
    text = told(*RUN)
    assert text.splitlines()[-1] == "report:  safespot-bandit/report.html"
    assert "tried: " in text
    assert f"after {found['trial']['certificate']['episodes']:,} fresh episodes" in text
    assert found["trial"]["line"] == "spot"


@pytest.mark.usefixtures("inline")
def test_a_sweep_tries_nothing(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(
        'episodes = 40\nseeds = 1\n[problem]\nname = "bandit"\n[[learners]]\nname = "uniform"\n'
    )
    words = ("sweep", str(tmp_path / "small.toml"), "--out", str(tmp_path / "s"))
    found = answer(*words)
    assert (found["finished"], found["trial"]) == (1, None)
    assert "tried" not in told(*words)


@pytest.mark.usefixtures("inline")
def test_what_a_run_is_about_comes_last(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "s"))
    for name in ("bandit", "machine", "bandit"):
        studies = answer("run", name, *RUN[2:], *out)["studies"]
        assert studies[-1]["problem"].startswith(name)
    assert len(studies) == 2


def test_runs_that_failed_are_named_and_end_the_command_with_a_failure(
    inline: dict[str, str], tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path / "s"))
    told(*RUN, *out)
    inline["bandit-x"] = "lost"
    assert answer(*RUN, *out, code=1)["failed"] == {"bandit-x": "lost"}
    done = CliRunner().invoke(cli.app, [*RUN, *out])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, "safespot: bandit-x failed: lost")


def test_where_nothing_is_finished_there_is_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(spec: Any, out: Path, **where: Any) -> Swept:
        return Swept(sweep_inline(out, []), (), {"bandit-x": "lost"})

    monkeypatch.setattr("safespot.experiments.sweep", fails)
    words, out = [*RUN, "--out", str(tmp_path / "s")], str(tmp_path / "s")
    found = answer(*words, code=1)
    assert (found["report"], found["studies"], found["trial"]) == (None, [], None)
    assert told(*words, code=1) == f"results: {out}\n"


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C is heard again after the test."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_says_where_what_is_done_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> Swept:
        raise KeyboardInterrupt

    monkeypatch.setattr("safespot.experiments.sweep", stopped)
    done = CliRunner().invoke(cli.app, [*RUN, "--out", str(tmp_path / "s")])
    said = f"safespot: stopped. What is finished is in {tmp_path / 's'}; the same command resumes."
    assert (done.exit_code, done.stderr.strip()) == (130, said)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


# --- Logs


@pytest.fixture
def log(tmp_path: Path) -> str:
    problem, noise = ss.problems.make("bandit"), ss.streams(0)
    coin = np.full((problem.cmdp.H, problem.cmdp.S, problem.cmdp.A), 1.0 / problem.cmdp.A)
    ss.write_log(tmp_path / "log.csv", [ss.play(problem, coin, noise, t) for t in range(1, 101)])
    return str(tmp_path / "log.csv")


def test_a_proposal_says_where_its_policy_lies_only_if_it_was_written(
    log: str, tmp_path: Path
) -> None:
    assert "policy: " not in told("propose", log)
    out = tmp_path / "next.json"
    assert told("propose", log, "--out", str(out)).splitlines()[-1] == f"policy: {out}"
    assert json.loads(out.read_text()) == answer("propose", log)["policy"]


def test_a_proposal_has_confidence_95_percent_and_as_long_a_trial_as_the_log_unless_asked(
    log: str,
) -> None:
    ref = ss.propose(ss.read_log(log), trial=100, delta=0.05).as_dict()
    assert answer("propose", log) == json.loads(json.dumps(ref, default=float))
    short = ss.propose(ss.read_log(log), trial=20, cases=3, delta=0.2).as_dict()
    words = ("--trial", "20", "--cases", "3", "--delta", "0.2")
    assert answer("propose", log, *words) == json.loads(json.dumps(short, default=float))


def test_a_limit_of_a_log_is_given_or_lies_between_what_the_log_proves(log: str) -> None:
    text, found = told("solve", log), answer("solve", log)
    (limit,) = found["limits"]
    low, high = limit["proven"]
    assert low < high
    value = f"{limit['name']} in {found['of']}: {limit['value']:.6g} {limit['sense']} {limit['limit']:.6g}, "
    assert f"{value}standard error {limit['standard_error']:.2g}, multiplier " in text
    assert f"lies in [{low:.4g}, {high:.4g}]" in text
    assert "is given" not in text
    known = told("solve", log, "-o", "thresholds=[0.5]")
    assert "is given: 0.5" in known
    assert "lies in" not in known


# --- Reports


@pytest.mark.usefixtures("inline")
def test_a_report_has_figures_for_print_only_if_asked_for(tmp_path: Path) -> None:
    store = tmp_path / "s"
    told(*RUN, "--out", str(store))
    assert told("report", str(store)) == f"{store}/report.html\n"
    assert not (store / "figures").exists()
    written = answer("report", str(store), "--figures", "svg")["written"]
    assert written[0] == f"{store}/report.html"
    assert sorted(written[1:]) == sorted(map(str, (store / "figures").iterdir()))
    assert written[1:]


# --- Serving, warming, watching


def test_what_is_served_is_the_folder_with_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("safespot.service.server.serve", lambda *given: asked.append(given[:4]))
    folder = tmp_path / "ward-7"
    told("serve", str(folder))
    told("serve", "folder", str(folder))
    more = ("--host", "::1", "--port", "9000", "--expire-after", "60", "--most-open", "5")
    told("serve", str(folder), *more)
    usual = (folder, "127.0.0.1", 8000, Settings(24 * 60 * 60.0, 1000))
    assert asked == [usual, usual, (folder, "::1", 9000, Settings(60.0, 5))]


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_serve_explains_itself(words: list[str]) -> None:
    done = CliRunner().invoke(cli.app, ["serve", *words])
    assert "safespot serve FOLDER" in done.output
    assert "token" in done.output


def test_a_token_is_told_once_and_its_holder_is_listed(tmp_path: Path) -> None:
    folder = str(tmp_path / "it")
    learner = ss.Uniform(states=2, actions=2, horizon=1, constraints=1, episodes=9)
    ss.open(folder, learner).close()
    token = told("serve", "token", "add", folder, "desk", "--right", "decide", "--right", "read")
    assert token.strip()
    listed = told("serve", "token", "list", folder)
    assert listed.startswith("desk  decide, read  made by ")
    assert "revoked" not in listed
    (about,) = answer("serve", "token", "list", folder)
    assert (about["name"], about["rights"], about["revoked"]) == ("desk", ["decide", "read"], None)
    assert "sha256" not in about
    told("serve", "token", "revoke", folder, "desk")
    assert "  revoked by " in told("serve", "token", "list", folder)


def test_warming_says_what_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safespot.experiments.warming.chores", lambda: ["spot", "dope"])
    monkeypatch.setattr("safespot.experiments.warming.warm", lambda workers: ["dope", "spot"])
    done = CliRunner().invoke(cli.app, ["warm", "--json"])
    assert json.loads(done.stdout)["ready"] == ["dope", "spot"]
    assert done.stderr == "safespot: dope (1 of 2)\nsafespot: spot (2 of 2)\n"
    assert told("warm") == "Compiled, or found compiled, in 0 s.\n"


def test_watching_says_where_and_goes_on_until_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = ss.Uniform(states=2, actions=2, horizon=1, constraints=1, episodes=9)
    ss.open(tmp_path / "it", learner).close()
    watched: list[str] = []
    monkeypatch.setattr(Server, "serve_forever", lambda server: watched.append(server.address))
    said = told("watch", str(tmp_path / "it"), "--port", "0")
    assert [f"{address}  (Ctrl-C ends it)\n" for address in watched] == [said]
    assert answer("watch", str(tmp_path / "it"))["title"] == "it"
    assert len(watched) == 1


def test_no_command_is_cut_short_in_the_list_of_them() -> None:
    assert "..." not in told("--help").partition("Commands:")[2]
