"""`make test-mutants`: which single changes of the code does no test notice?

    python -m tests.support.mutants storage data --sample 300      changes of these rooms, drawn by --seed
    python -m tests.support.mutants storage --survivors            only those that nobody noticed so far
    python -m tests.support.mutants storage --report               what is known, without trying anything

A room is a folder of the package with the tests of the same name (and those of `ALSO`); `top` are the modules beside the
folders. What a change is, and what is left out by rule, stands in `tests.support.changes`.

One process imports everything and runs the room's tests once, line by line, to learn which test runs which lines. Then each
change is tried in a fork of it: the code of one function is exchanged in place, and the tests that run its lines are run,
the fastest first, until one fails (`noticed`). What runs when a module is imported (constants, defaults, fields) is
changed in a fork that forgets the package and imports it again. An endless loop counts as noticed: a fork may take five
times the processor time of its tests. Every 25th fork changes nothing, and must not be noticed.

Kernels are changed where they run uncompiled (``NUMBA_DISABLE_JIT=1``), which costs no compiling; that they do the same
compiled is tested elsewhere. Tests that take too long there are left out.

Results are kept in ``.mutants/``, so that a run goes on where it ended. A change is tried again when its module has
changed in that place, or with ``--survivors``.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

import pytest

from tests.support.changes import Change, changes, drawn

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "safespot"
KEPT = ROOT / ".mutants"
ALSO = {
    "storage": ("tests/reliability/test_sharing.py", "tests/docs/test_online_loop.py"),
    "data": ("tests/reliability/test_bombs.py", "tests/cli/test_logs.py"),
    "experiments": ("tests/cli/test_cli.py",),
    "cli": ("tests/reliability/test_fuzzing.py",),
}
WITHOUT = ("benchmarks",)  # studies: what they compute is in the rooms, and their tables are looked at
OPTIONS = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-profile", "mutants")
LONGEST = 12.0  # seconds of a test that takes part, traced
CALLS = 30  # of a function in one test that are followed line by line
CONTROL = 25  # one fork in so many changes nothing
MEMORY = 6 * 2**30  # bytes that a fork may ask for beyond those it has

Lines = dict[str, set[int]]


class Trial:
    """A pytest plugin in whose place of running the tests the changes are tried."""

    def __init__(self, room: Sequence[Change], found: dict[str, str], save: Callable, patience: float):
        self.room, self.found, self.save, self.patience = room, found, save, patience
        self.files = {str(change.file) for change in room}
        self.lines: dict[str, Lines] = {}  # of each test
        self.seconds: dict[str, float] = {}  # of each test that passes
        self.imported: Lines = defaultdict(set)  # what runs while modules are imported
        self.failed = False
        self.child = False
        self.tracer = Tracer(self.files)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A test file that cannot be imported notices a change."""
        if report.failed and self.child:
            os._exit(1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In a fork the first failure ends it."""
        self.failed |= report.failed
        if report.failed and self.child:
            os._exit(1)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Follow the tests, take their time, try the changes."""
        if session.testsfailed:
            raise session.Failed("tests cannot be imported")
        if self.child:  # everything was imported again
            run(session.items)
            os._exit(0)
        items = {item.nodeid: item for item in session.items}
        self.follow(session.items)
        self.time(session.items)
        say(f"  {len(self.seconds)} of {len(items)} tests take part, {sum(self.seconds.values()):.0f} s")
        for count, change in enumerate(self.room):
            chosen = self.choose(change)
            if not chosen:
                self.found[change.key] = "no test"
            else:
                if count % CONTROL == 0 and self.fork(None, [items[name] for name in chosen]):
                    self.found[f"control {change.key}"] = "noticed"
                noticed = self.fork(change, [items[name] for name in chosen])
                self.found[change.key] = noticed or "survived"
            self.save()
        return True

    def follow(self, items: list[pytest.Item]) -> None:
        """Which lines each test runs. This process runs them, so that kernels are loaded for all forks."""
        signal.signal(signal.SIGALRM, _too_long)
        for item, after in itertools.zip_longest(items, items[1:]):
            self.failed, self.tracer.lines = False, defaultdict(set)
            signal.setitimer(signal.ITIMER_REAL, 2 * LONGEST)
            with self.tracer:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if not self.failed:
                self.lines[item.nodeid] = self.tracer.lines
        self.imported = self.tracer.imported

    def time(self, items: list[pytest.Item]) -> None:
        """How long each test takes in a fork, untraced; who fails or takes too long there takes no part."""
        reading, writing = os.pipe()
        if not os.fork():
            signal.signal(signal.SIGALRM, _too_long)
            with os.fdopen(writing, "w") as out:
                for item in items:
                    began, self.failed = time.process_time(), False
                    signal.setitimer(signal.ITIMER_REAL, LONGEST)
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    if not self.failed:
                        took = time.process_time() - began
                        print(json.dumps([item.nodeid, took]), file=out, flush=True)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            self.seconds = dict(json.loads(line) for line in told)
        os.wait()

    def choose(self, change: Change) -> list[str]:
        """The tests that run its lines, the fastest first, as far as patience goes."""
        name, (first, last) = str(change.file), change.lines
        here = set(range(first, last + 1))
        touching = [
            test
            for test in self.seconds
            if (lines := self.lines[test].get(name)) and (not change.function or lines & here)
        ]
        touching.sort(key=self.seconds.__getitem__)
        spent = itertools.accumulate(self.seconds[test] for test in touching)
        return [
            test
            for test, until in zip(touching, spent, strict=True)
            if until < self.patience or test == touching[0]
        ]

    def fork(self, change: Change | None, items: list[pytest.Item]) -> str:
        """How a change was noticed in a fork; "" if it was not."""
        allowed = 5 * sum(self.seconds[item.nodeid] for item in items) + 10
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        pid = os.fork()
        if not pid:
            self.child = True
            try:
                self.try_it(change, items, folder, allowed)
            except BaseException:  # the test's own end of the process, too
                os._exit(1)
        status = _wait(pid, 3 * allowed + 20)
        shutil.rmtree(folder, ignore_errors=True)
        if status is None:
            return "by the clock"
        return {0: "", 1: "noticed"}.get(status, "by its end")

    def try_it(
        self, change: Change | None, items: list[pytest.Item], folder: Path, allowed: float
    ) -> NoReturn:
        """Change the code and run the tests; ends this process."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(allowed), int(allowed) + 1))
        used = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        items[0].config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        for value in gc.get_objects():
            if isinstance(value, functools._lru_cache_wrapper):
                if value.__module__.startswith(("safespot", "tests")):
                    value.cache_clear()
        if change is None or (change.function and not self.at_import(change) and exchange(change)):
            run(items)
            os._exit(0)
        import_anew(change)
        names = [item.nodeid for item in items]
        code = pytest.main([*OPTIONS, f"--basetemp={folder}/anew", *names], plugins=[self])
        os._exit(int(code != 0))

    def at_import(self, change: Change) -> bool:
        first, last = change.lines
        return not self.imported[str(change.file)].isdisjoint(range(first, last + 1))


class Tracer:
    """Follows the lines of some files, in all threads; a function's first calls only."""

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.lines: Lines = defaultdict(set)
        self.imported: Lines = defaultdict(set)
        self.calls = Counter[CodeType]()

    def __enter__(self) -> None:
        self.calls.clear()
        threading.settrace(self.called)
        sys.settrace(self.called)

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Python calls it for each call of a function."""
        code = frame.f_code
        if code.co_filename not in self.files or self.calls[code] >= CALLS:
            return None
        self.calls[code] += 1
        lines = {self.lines[code.co_filename].add}
        if _importing(frame):
            lines.add(self.imported[code.co_filename].add)
        if code.co_name != "<module>":
            for add in lines:
                add(frame.f_lineno)

        def at_line(frame: FrameType, event: str, argument: Any) -> Any:
            for add in lines:
                add(frame.f_lineno)
            return at_line

        return at_line


def _importing(frame: FrameType | None) -> bool:
    """Whether a module of ours or of the tests is being imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(ROOT)):
            return "__main__" not in frame.f_globals.get("__name__", "")
        frame = frame.f_back
    return False


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError("the test takes too long to be repeated for every change")


def run(items: list[pytest.Item]) -> None:
    """Run tests as pytest does."""
    for item, after in itertools.zip_longest(items, items[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def exchange(change: Change) -> bool:
    """Give the function its changed code, wherever it is held; whether that was possible."""
    code = _find(compile(change.tree, str(change.file), "exec"), change.function)
    if code is None:
        return False
    same = [
        value
        for value in gc.get_objects()
        if isinstance(value, FunctionType)
        and value.__code__.co_filename == str(change.file)
        and value.__code__.co_qualname == change.function
    ]
    for function in same:
        if function.__code__.co_freevars != code.co_freevars:
            return False
        function.__code__ = code
    return bool(same)


def _find(code: CodeType, qualname: str) -> CodeType | None:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_qualname == qualname:
                return inner
            if qualname.startswith(f"{inner.co_qualname}.") and (found := _find(inner, qualname)):
                return found
    return None


def import_anew(change: Change) -> None:
    """Forget the package and the tests; the changed module is imported when one asks for it."""
    parts = change.file.relative_to(PACKAGE.parent).with_suffix("").parts
    target = ".".join(part for part in parts if part != "__init__")
    code = compile(change.tree, str(change.file), "exec")

    class Loader(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType | None:
            return code if fullname == target else super().get_code(fullname)

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, module: Any = None) -> Any:
            if name != target:
                return None
            where = [str(change.file.parent)] if change.file.name == "__init__.py" else None
            return importlib.util.spec_from_file_location(
                name, change.file, loader=Loader(name, str(change.file)), submodule_search_locations=where
            )  # fmt: skip

    for name in list(sys.modules):
        if name.partition(".")[0] in ("safespot", "tests") and name != __name__:
            del sys.modules[name]
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]


def _wait(pid: int, seconds: float) -> int | None:
    """The exit code of a fork (negative: a signal); None and no process left if it takes too long."""
    until, pause = time.monotonic() + seconds, 0.002
    ended, status = os.waitpid(pid, os.WNOHANG)
    while not ended and time.monotonic() < until:
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
        ended, status = os.waitpid(pid, os.WNOHANG)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not ended:
        os.waitpid(pid, 0)
        return None
    return os.waitstatus_to_exitcode(status)


def say(text: str) -> None:
    """Beside what pytest captures."""
    os.write(SAID, f"{text}\n".encode())


SAID = os.dup(2)


def of_room(room: str, seed: int) -> list[Change]:
    """All changes of a room, in the order of the seed."""
    files = PACKAGE.glob("*.py") if room == "top" else (PACKAGE / room).rglob("*.py")
    found = [change for file in sorted(files) for change in changes(file)]
    return sorted(found, key=lambda change: drawn(change, seed))


def main(arguments: list[str]) -> int:
    """Try the changes of some rooms; the number of rooms whose controls failed."""
    rooms = [p.name for p in sorted(PACKAGE.iterdir()) if (p / "__init__.py").exists()] + ["top"]
    rooms = [room for room in rooms if room not in WITHOUT]
    parser = argparse.ArgumentParser(prog="python -m tests.support.mutants")
    parser.add_argument("rooms", nargs="*", choices=[*rooms, []], default=rooms)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=8.0, help="seconds of tests per change")
    parser.add_argument("--survivors", action="store_true")
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
    say(f"{room}, {given.only}: {len(left)} changes")

    def save() -> None:
        KEPT.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found, indent=0))

    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
    trial = Trial(left, found, save, given.patience)
    with trial.tracer, tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        options = [*OPTIONS, f"--basetemp={folder}/first", *tests, *ALSO.get(room, ())]
        return int(pytest.main(options, plugins=[trial]))


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
