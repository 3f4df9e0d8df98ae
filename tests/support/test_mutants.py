"""Changes of a toy module: which there are, and that exactly those are noticed that its tests notice."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import trials
from tests.support.changes import changes
from tests.support.trials import ROOT, Trial

TOY = '''
"""What is left out: texts, types, tolerances."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    FAST = 1 + 1

LIMIT = 3
BLOCK = 512


def inside(x: "int | None", near: float = 1e-9) -> bool:
    """0 < 1."""
    if x < 0:
        raise ValueError(f"{x + 1} is {1 + 1}")
    return x <= LIMIT and not x == 2


def add(values):
    total = 0
    for value in values:
        total += value
    return total


def spin(n):
    while n > 0:
        n -= 1
    return n
'''
TESTS = """
import pytest
import toy


@pytest.mark.parametrize(("x", "kept"), [(3, True), (2, False), (1, True)])
def test_inside(x, kept):
    assert toy.inside(x) == kept


def test_spin():
    assert toy.spin(3) == 0


def test_that_waits_for_a_process():
    import subprocess

    subprocess.Popen(["sleep", "3"], stdout=subprocess.PIPE).wait()


def test_add():
    toy.add([1, 2])
"""
RUN = """
import json, sys
from pathlib import Path
from tests.support.changes import changes
from tests.support import trials
trials.GRACE = 1.0
trials.LONGEST = 0.2
found = {}
tried = [change for change in changes(Path("toy.py").absolute()) if change.text.startswith(sys.argv[1])]
code = trials.try_all(tried, ["test_toy.py"], found, lambda: None, 1.0)
Path("found.json").write_text(json.dumps(found))
sys.exit(code)
"""
UNNOTICED = {
    # nothing asks what `add` returns
    "total = 0": "add: 0 → 1",
    "operator": "add: total += value → total -= value",
    "dropped": "add: total += value → pass",
    "returned": "add: return total → return None",
    # nothing below 0 or at 0 or beyond the limit is tried
    "error": "inside: raise ValueError(f'{x + 1} is {1 + 1}') → pass",
    "edge": "inside: x < 0 → x <= 0",
    "limit": ": 3 → 4",
    "zero": "inside: 0 → 1",
}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "test_toy.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    return tmp_path


def test_what_may_be_changed_and_what_is_left_out(toy: Path) -> None:
    found = [change.key.partition(":")[2] for change in changes(toy / "toy.py")]
    assert len(set(found)) == len(found)
    assert sorted(key.partition(" #")[0] for key in found if key.startswith(("inside", ":"))) == [
        ": 3 → 4",
        "inside: 0 → 1",
        "inside: 2 → 3",
        "inside: if x < 0: → if not x < 0:",
        "inside: not x == 2 → x == 2",
        "inside: raise ValueError(f'{x + 1} is {1 + 1}') → pass",
        "inside: return x <= LIMIT and (not x == 2) → return None",
        "inside: x < 0 → x <= 0",
        "inside: x < 0 → x >= 0",
        "inside: x <= LIMIT and (not x == 2) → x <= LIMIT or not x == 2",
        "inside: x <= LIMIT → x < LIMIT",
        "inside: x <= LIMIT → x > LIMIT",
        "inside: x == 2 → x != 2",
    ]
    assert [change.key for change in changes(toy / "toy.py", seed=1)] != found


def outcomes(toy: Path, of: str = "") -> dict[str, str]:
    """What becomes of the changes of the toy whose text begins so."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(toy)])
    done = subprocess.run(
        [sys.executable, "-c", RUN, of], cwd=toy, env={**os.environ, "PYTHONPATH": path}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads((toy / "found.json").read_text())
    return found


SAME = """
def test_same():
    import sys
    assert toy.add([1]) == 1 and sys.modules["toy"] is toy
"""


def test_what_fails_where_the_package_is_imported_again_is_a_false_alarm(toy: Path) -> None:
    """That is how a change is tried of what runs when a module is imported."""
    (toy / "test_toy.py").write_text(TESTS + SAME)
    (change, control) = sorted(outcomes(toy, "3 → 4"), key=len)
    assert control == f"control {change}"


def test_changes_that_no_test_notices_are_found(toy: Path) -> None:
    found = outcomes(toy)
    assert not [key for key in found if key.startswith("control")]
    unnoticed = {
        key.partition(":")[2].partition(" #")[0]
        for key, outcome in found.items()
        if outcome in ("survived", "no test")
    }
    assert unnoticed == set(UNNOTICED.values())
    assert any(outcome in ("by its end", "by the clock") for outcome in found.values())  # `spin`


def test_a_weak_reference_to_what_is_gone_does_not_end_the_run() -> None:
    class Thing:
        pass

    proxy = weakref.proxy(Thing())
    gc.collect()
    with pytest.raises(ReferenceError):
        isinstance(proxy, str)
    try:
        Trial([], {}, lambda: None, 1.0).look_round()
    finally:
        gc.unfreeze()


def test_what_earlier_tests_left_is_not_freed_where_tests_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a connection to DuckDB, whose end waits for threads that a fork does not have."""

    class Left:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            (tmp_path / f"freed-{os.getpid()}").touch()

    def completed(*_: Any) -> bool:
        gc.collect()
        return True

    monkeypatch.setattr(trials, "_completed", completed)
    trial = Trial([], {}, lambda: None, 1.0)
    trial.lines = {"test": {}}
    gc.disable()
    try:
        Left()
        item: Any = SimpleNamespace(nodeid="test")
        trial.time([item])
    finally:
        gc.enable()
    assert list(trial.seconds) == ["test"]
    assert not list(tmp_path.iterdir())


def test_whoever_waits_for_ever_where_tests_are_timed_takes_no_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also outside of Python, where no signal is heard."""

    def completed(item: Any, _: Any) -> bool:
        if item.nodeid == "waits":
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGPROF})
            threading.Event().wait(5.0)
        return True

    monkeypatch.setattr(trials, "_completed", completed)
    monkeypatch.setattr(trials, "HUNG", 0.1)
    trial = Trial([], {}, lambda: None, 1.0)
    items: Any = [SimpleNamespace(nodeid=name) for name in ("first", "waits", "last")]
    trial.lines = {item.nodeid: {} for item in items}
    trial.time(items)
    assert list(trial.seconds) == ["first", "last"]
