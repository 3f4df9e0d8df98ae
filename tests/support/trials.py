"""Single changes of the code, each tried in a fork of a warm process.

One process imports everything and runs the tests once, line by line, to learn which test runs which lines. Then each
change is tried in a fork of it: the code of one function is exchanged in place, and the tests that run its lines are
run, the fastest first, until one fails (`noticed`). What runs when a module is imported (constants, defaults, fields)
is changed in a fork that forgets the package and imports it again. An endless loop counts as noticed: a fork may take
three times the processor time of its tests, and wait for nothing three times as long. Before every 25th change, and
before the first that is imported again, a fork does the same without the change, and must not be noticed.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import functools
import gc
import hashlib
import importlib.machinery
import importlib.util
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

import pytest

from tests.support.changes import Change

ROOT = Path(__file__).parents[2]
OPTIONS = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-profile", "mutants")
# Processor seconds of a test that takes part; uncompiled, most take long and few say more than the quick ones.
PLAIN = bool(os.environ.get("NUMBA_DISABLE_JIT"))
LONGEST = 1.0 if PLAIN else 4.0
# Tests that take too long uncompiled: not followed again unless their file changes. (Compiled, the first run of a test
# may take long and the second one not.)
SLOW = ROOT / ".mutants" / "slow.json"
HUNG = 10 * LONGEST  # seconds by the clock after which a fork ends that hears no signal
CALLS = 30  # of a function in one test that are followed line by line
GRACE = 5.0  # seconds that a fork may take beyond three times those of its tests
ANEW = 60.0  # and where everything is imported again, compiled code and problems among it
CONTROL = 25  # before one change in so many a fork changes nothing
MEMORY = 6 * 2**30  # bytes that a fork may ask for beyond those it has

Lines = dict[str, set[int]]


def try_all(
    left: Sequence[Change], tests: list[str], found: dict[str, str], save: Callable, patience: float
) -> int:
    """Try changes with some tests; 0, or why pytest could not run them. Tests that fail unchanged take no part."""
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
    trial = Trial(left, found, save, patience)
    with (
        trial.tracer,
        tempfile.TemporaryDirectory(
            prefix="mutants-",
            ignore_cleanup_errors=True,  # a process of an interrupted test may still write there
        ) as folder,
    ):
        options = [*OPTIONS, f"--basetemp={folder}/first", *tests]
        code = pytest.main(options, plugins=[trial])
        return int(code) if code != pytest.ExitCode.TESTS_FAILED else 0


class Trial:
    """A pytest plugin in whose place of running the tests the changes are tried."""

    def __init__(
        self, room: Sequence[Change], found: dict[str, str], save: Callable, patience: float
    ):
        self.room, self.found, self.save, self.patience = room, found, save, patience
        self.files = {str(change.file) for change in room}
        self.lines: dict[str, Lines] = {}  # of each test
        self.seconds: dict[str, float] = {}  # of each test that passes
        self.imported: Lines = defaultdict(set)  # what runs while modules are imported
        self.functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        self.caches: list[Any] = []
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
        session.items[:] = [item for item in session.items if not _browses(item)]
        if self.child:  # everything was imported again
            run(session.items)
            os._exit(0)
        items = {item.nodeid: item for item in session.items}
        self.follow(session.items)
        self.time(session.items)
        self.look_round()
        say(
            f"  {len(self.seconds)} of {len(items)} tests take part, {sum(self.seconds.values()):.0f} s"
        )
        first = next((change for change in self.room if self.at_import(change)), None)
        for count, change in enumerate(self.room):
            began, chosen = time.monotonic(), self.choose(change)
            if not chosen:
                self.found[change.key] = "no test"
            else:
                tests = [items[name] for name in chosen]
                if (count % CONTROL == 0 or change is first) and self.fork(
                    change, tests, control=True
                ):
                    self.found[f"control {change.key}"] = "noticed"
                self.found[change.key] = self.fork(change, tests) or "survived"
            self.save()
            took = time.monotonic() - began
            say(f"  {took:5.1f} s, {len(chosen):3} tests: {self.found[change.key]}: {change.key}")
        return True

    def follow(self, items: list[pytest.Item]) -> None:
        """Which lines each test runs. This process runs them, so that kernels are loaded for all forks."""
        slow = set(json.loads(SLOW.read_text())) if PLAIN and SLOW.exists() else set()
        items = [item for item in items if _named(item) not in slow]
        for item, after in itertools.zip_longest(items, items[1:]):
            self.failed, self.tracer.lines = False, defaultdict(set)
            _limit(2 * LONGEST)
            with self.tracer:
                completed = _completed(item, after)
            _limit(0.0)
            if completed and not self.failed:
                self.lines[item.nodeid] = self.tracer.lines
            elif PLAIN:
                slow.add(_named(item))
                SLOW.parent.mkdir(exist_ok=True)
                SLOW.write_text(json.dumps(sorted(slow), indent=0))
            if item.nodeid not in self.lines:
                _let_go()
        self.imported = self.tracer.imported

    def time(self, items: list[pytest.Item]) -> None:
        """How long each test takes in a fork, untraced; who fails, takes too long or ends the fork takes no part."""
        left = [item for item in items if item.nodeid in self.lines]
        while left:
            reading, writing = os.pipe()
            if not (pid := os.fork()):
                try:
                    self.time_in_fork(left, writing)
                finally:
                    os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as told:
                found = [json.loads(line) for line in told]
            os.waitpid(pid, 0)
            self.seconds |= {left[k].nodeid: took for k, took in found if took is not None}
            left = left[1 + max((k for k, _ in found), default=0) :]

    def time_in_fork(self, items: list[pytest.Item], writing: int) -> None:
        """Tell which test begins (None), and how long it took if it passed."""
        gc.freeze()  # what the tests before left belongs to threads that are not here: to free it would wait for ever
        with os.fdopen(writing, "w") as out, open(os.devnull, "w") as nothing:
            for k, item in enumerate(items):
                print(json.dumps([k, None]), file=out, flush=True)
                began, self.failed = _spent(), False
                # Code that is not Python's, and waits for threads that are not here, hears no signal.
                faulthandler.dump_traceback_later(HUNG, exit=True, file=nothing)
                _limit(LONGEST)
                completed = _completed(item, None)
                _limit(0.0)
                faulthandler.cancel_dump_traceback_later()
                if completed and not self.failed:
                    print(json.dumps([k, _spent() - began]), file=out, flush=True)

    def look_round(self) -> None:
        """Find every function that may be exchanged and every cache, once for all forks."""
        _let_go()
        for value in gc.get_objects():
            kind = type(value)  # `isinstance` would ask a weak proxy, whose object may be gone
            if kind is FunctionType and value.__code__.co_filename in self.files:
                code = value.__code__
                self.functions[code.co_filename, code.co_qualname].append(value)
            elif kind is functools._lru_cache_wrapper and value.__module__.startswith(
                ("safespot", "tests")
            ):
                self.caches.append(value)
        gc.freeze()  # so that forks share the memory

    def choose(self, change: Change) -> list[str]:
        """The tests that run its lines, the fastest first, as far as patience goes."""
        name, (first, last) = str(change.file), change.lines
        here = set(range(first, last + 1))
        touching = [
            test
            for test in self.seconds
            if (lines := self.lines[test].get(name)) and (not change.function or lines & here)
        ]
        if not touching:  # perhaps a later call than those that were followed
            around = {
                line
                for function in self.functions.get((name, change.function), ())
                for *_, line in function.__code__.co_lines()
            }
            touching = [test for test in self.seconds if self.lines[test].get(name, set()) & around]
        touching.sort(key=self.seconds.__getitem__)
        spent = itertools.accumulate(self.seconds[test] for test in touching)
        return [
            test
            for test, until in zip(touching, spent, strict=True)
            if until < self.patience or test == touching[0]
        ]

    def fork(self, change: Change, items: list[pytest.Item], control: bool = False) -> str:
        """How a change was noticed in a fork; "" if it was not. A control does the same without the change."""
        allowed = 3 * sum(self.seconds[item.nodeid] for item in items) + GRACE
        allowed += ANEW if self.at_import(change) else 0.0
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        pid = os.fork()
        if not pid:
            self.child = True
            try:
                self.try_it(change, items, folder, allowed, control)
            except BaseException:  # the test's own end of the process, too
                os._exit(1)
        status = _wait(pid, 3 * allowed)
        shutil.rmtree(folder, ignore_errors=True)
        if status is None:
            return "by the clock"
        return {0: "", 1: "noticed"}.get(status, "by its end")

    def try_it(
        self, change: Change, items: list[pytest.Item], folder: Path, allowed: float, control: bool
    ) -> NoReturn:
        """Change the code and run the tests; ends this process."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(allowed), int(allowed) + 1))
        used = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        items[0].config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        for cache in self.caches:
            cache.cache_clear()
        here = self.functions.get((str(change.file), change.function), [])
        if not self.at_import(change) and (control or exchange(change, here)):
            run(items)
            os._exit(0)
        import_anew(change.file, ast.parse(change.file.read_bytes()) if control else change.tree)
        # A change may move the names of cases, so all cases of a test are run.
        names = list(dict.fromkeys(item.nodeid.partition("[")[0] for item in items))
        code = pytest.main([*OPTIONS, f"--basetemp={folder}/anew", *names], plugins=[self])
        os._exit(int(code != 0))

    def at_import(self, change: Change) -> bool:
        """Whether it runs when its module is imported."""
        if not change.function:
            return True
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
        threading.settrace(None)

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


class TooLong(BaseException):
    """A test that takes too long to be repeated for every change; nothing but pytest catches it."""


def _spent() -> float:
    """Processor seconds of this process and of those that it has started and waited for."""
    return sum(os.times()[:4])


def _limit(seconds: float) -> None:
    """Interrupt what runs after so many seconds of the processor, or five times as many by the clock; 0: no more."""

    def interrupt(*_: object) -> NoReturn:
        raise TooLong

    for timer, number, factor in (
        (signal.ITIMER_PROF, signal.SIGPROF, 1),
        (signal.ITIMER_REAL, signal.SIGALRM, 5),
    ):
        signal.signal(number, interrupt)
        signal.setitimer(timer, factor * seconds)


def _let_go() -> None:
    """Drop what an interrupted test left open: else pytest blames the next test, and in every fork its first one."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _browses(item: pytest.Item) -> bool:
    """Whether a test has a browser opened, which is another process's and does not survive a fork."""
    return "browser" in getattr(item, "fixturenames", ())


def _named(item: pytest.Item) -> str:
    """A test as its file stands."""
    return f"{item.nodeid} {_digest(item.path)}"


@functools.cache
def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def _completed(item: pytest.Item, after: pytest.Item | None) -> bool:
    """Run one test; whether pytest came to its end, which it does not if a plugin stumbles over an interruption."""
    try:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
    except (Exception, TooLong):
        _limit(0.0)
        item.session._setupstate.teardown_exact(None)
        return False
    return True


def run(items: list[pytest.Item]) -> None:
    """Run tests as pytest does."""
    for item, after in itertools.zip_longest(items, items[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def exchange(change: Change, functions: list[FunctionType]) -> bool:
    """Give the functions of that name the changed code; whether that was possible."""
    code = _find(compile(change.tree, str(change.file), "exec"), change.function)
    if code is None or any(f.__code__.co_freevars != code.co_freevars for f in functions):
        return False
    for function in functions:
        function.__code__ = code
    return bool(functions)


def _find(code: CodeType, qualname: str) -> CodeType | None:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_qualname == qualname:
                return inner
            if qualname.startswith(f"{inner.co_qualname}.") and (found := _find(inner, qualname)):
                return found
    return None


def import_anew(file: Path, tree: ast.Module) -> None:
    """Forget the package and the tests; the changed module is imported when one asks for it."""
    named = {getattr(module, "__file__", ""): name for name, module in sys.modules.items()}
    target = named[str(file)]
    code = compile(tree, str(file), "exec")

    class Loader(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType | None:
            return code if fullname == target else super().get_code(fullname)

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, module: Any = None) -> Any:
            if name != target:
                return None
            where = [str(file.parent)] if file.name == "__init__.py" else None
            return importlib.util.spec_from_file_location(
                name, file, loader=Loader(name, str(file)), submodule_search_locations=where
            )

    for name in list(sys.modules):
        if name.partition(".")[0] in ("safespot", "tests", target):
            del sys.modules[name]
    sys.meta_path.insert(0, Finder)


def _wait(pid: int, seconds: float) -> int | None:
    """The exit code of a fork (negative: a signal); None and no process left if it waits for too long.

    Only time in which none of its processes could go on counts: on a busy machine they may have to wait for others.
    """
    pause, looked = 0.002, time.monotonic()
    ended, status = os.waitpid(pid, os.WNOHANG)
    while not ended and seconds > 0.0:
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if (now := time.monotonic()) - looked >= 0.5:
            seconds -= 0.0 if _runs(pid) else now - looked
            looked = now
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not ended:
        os.waitpid(pid, 0)
        return None
    return os.waitstatus_to_exitcode(status)


def _runs(session: int) -> bool:
    """Whether some process of a session would go on if a processor were free."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of, *_ = file.read_text().rpartition(")")[2].split()
            if int(of) == session and state in "RD":
                return True
    return False


def say(text: str) -> None:
    """Beside what pytest captures."""
    os.write(SAID, f"{text}\n".encode())


SAID = os.dup(2)
