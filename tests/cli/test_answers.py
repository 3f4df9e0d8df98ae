"""What commands take and what they answer, without processes of their own."""

from __future__ import annotations

import json
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


def test_options_are_toml_where_they_can_be() -> None:
    words = ["a=1", " b = [1, 2.5]", "c=true", 'd="x"', "e=plain words", "f="]
    assert given.parse_options(words) == {
        "a": 1, "b": [1, 2.5], "c": True, "d": "x", "e": "plain words", "f": "",
    }  # fmt: skip
    assert given.parse_options(None) == {}


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
    (tmp_path / "words.json").write_text("take the first")
    wrong = [(None, "slater"), ([3.0], tmp_path / "words.json"), ([3.0], tmp_path / "absent.json")]
    for budget, baseline in wrong:
        with pytest.raises(ss.SafespotError, match=r"--budget|holds no policy|cannot read"):
            given.as_guard(budget, str(baseline))


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


def test_runs_that_failed_are_named_and_end_the_command_with_a_failure(
    inline: dict[str, str], tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path / "s"))
    told(*RUN, *out)
    inline["bandit-x"] = "lost"
    assert answer(*RUN, *out, code=1)["failed"] == {"bandit-x": "lost"}
    done = CliRunner().invoke(cli.app, [*RUN, *out])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, "safespot: bandit-x failed: lost")


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
