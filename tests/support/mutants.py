"""`make test-mutants`: which single changes of the code does no test notice?

    python -m tests.support.mutants storage data --sample 300      changes of these rooms, drawn by --seed
    python -m tests.support.mutants storage --survivors            only those that nobody noticed so far
    python -m tests.support.mutants storage --survivors --tests tests/storage/test_new.py
    python -m tests.support.mutants storage --report               what is known, without trying anything

A room is a folder of the package with the tests of the same name (and those of `ALSO`); `top` are the modules beside
the folders. What a change is, and what is left out by rule, stands in `tests.support.changes`; how one is tried, in
`tests.support.trials`.

Kernels are changed where they run uncompiled (``NUMBA_DISABLE_JIT=1``), which costs no compiling; that they do the same
compiled is tested elsewhere. Tests that take too long there are left out.

Results are kept in ``.mutants/``, so that a run goes on where it ended. A change is tried again when its place in the
module has changed, or with ``--survivors``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.changes import Change, changes, drawn
from tests.support.contract import VARIANTS
from tests.support.trials import say, try_all

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "safespot"
KEPT = ROOT / ".mutants"
ALSO = {
    "storage": ("tests/reliability/test_sharing.py", "tests/docs/test_online_loop.py"),
    "evidence": ("tests/judging/test_doubts.py", "tests/judging/test_certify.py"),
    "data": ("tests/reliability/test_bombs.py", "tests/cli/test_logs.py"),
    "experiments": ("tests/cli/test_cli.py",),
}
# Minutes uncompiled, most of them for nothing.
LONG = tuple(
    f"tests/learners/test_{name}.py"
    for name in [
        "contract",
        "epochs_elsewhere",
        "from_outside",
        "history",
        "restoring",
        "with_a_log",
    ]
)


def of_room(room: str, seed: int) -> list[Change]:
    """All changes of a room, in the order of the seed."""
    files = PACKAGE.glob("*.py") if room == "top" else (PACKAGE / room).rglob("*.py")
    found = [change for file in sorted(files) for change in changes(file)]
    return sorted(found, key=lambda change: drawn(change, seed))


def main(arguments: list[str]) -> int:
    """Try the changes of some rooms; the number of rooms whose controls failed."""
    rooms = [p.name for p in sorted(PACKAGE.iterdir()) if (p / "__init__.py").exists()] + ["top"]
    parser = argparse.ArgumentParser(prog="python -m tests.support.mutants")
    parser.add_argument("rooms", nargs="*", choices=[*rooms, []], default=rooms)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=8.0, help="seconds of tests per change")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--tests", help="only these files, such as new ones; divided by commas")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--only", choices=("plain", "compiled"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    for room in given.rooms:
        if given.only:
            return attempt(room, given)
        if not given.report:
            for only in ("plain", "compiled"):
                again = [sys.executable, "-m", __spec__.name, *arguments, "--only", only]
                own = [word for word in again if word not in given.rooms] + [room]
                jit = {"NUMBA_DISABLE_JIT": "1"} if only == "plain" else {}
                subprocess.run(own, cwd=ROOT, env={**os.environ, **jit}, check=True)
        report(room, of_room(room, given.seed)[: given.sample])
    return 0


def attempt(room: str, given: argparse.Namespace) -> int:
    """Try those changes of a room that are tried in this process, compiled or not."""
    kept = KEPT / f"{room}.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    again = ("survived", "no test") if given.survivors else ()
    sample = of_room(room, given.seed)[: given.sample]
    left = [
        change
        for change in sample
        if change.plain == (given.only == "plain") and found.get(change.key, "") in ("", *again)
    ]
    if not left:
        return 0
    tests = sorted(map(str, ROOT.glob("tests/test_*.py"))) if room == "top" else [f"tests/{room}"]
    tests = given.tests.split(",") if given.tests else tests
    say(f"{room}, {given.only}: {len(left)} changes")

    def save() -> None:
        KEPT.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found, indent=0))

    # Uncompiled, these and the tests of other rooms take too long.
    plain = given.only == "plain"
    also = [] if plain or given.tests else ALSO.get(room, ())
    more = [*also, *([f"--ignore={name}" for name in LONG] if plain else others())]
    return try_all(left, [*tests, *more], found, save, given.patience)


def others() -> list[str]:
    """Options of pytest that leave one variant or two of each learner's contract: all of them take long."""
    left = {
        f"{name}-{variant}"
        for name, variants in VARIANTS.items()
        for variant in list(variants)[:-1]
        if variant not in ("units", "total-window")
    }
    file = "tests/learners/test_contract.py"
    tests = ("promise", "loading_goes_on_as_if_never_stopped", "who_played_may_be_said")
    return [
        f"--deselect={file}::test_{test}[{subject}" for test in tests for subject in sorted(left)
    ]


def report(room: str, sample: list[Change]) -> None:
    """How many were noticed, and the others one by one."""
    kept = KEPT / f"{room}.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    known = [change for change in sample if change.key in found]
    others = [change for change in known if found[change.key] in ("survived", "no test")]
    noticed, alarms = len(known) - len(others), sum(key.startswith("control") for key in found)
    print(f"{room}: {noticed} of {len(known)} noticed ({noticed / max(1, len(known)):.1%})", end="")
    print(f", {alarms} false alarms" if alarms else "")
    for change in sorted(others, key=lambda change: (change.file, change.lines)):
        where = f"{change.file.relative_to(PACKAGE)}:{change.lines[0]}"
        print(f"  {where} {change.function}: {change.text} [{found[change.key]}]", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
