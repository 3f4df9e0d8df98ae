"""Faults that the kernel returns, one system call at a time: strace makes them, the learner must keep its word.

A process opens a durable learner twice and lets it observe; what is acknowledged is noted outside. In process after
process the n-th call of one kind fails with one error, or ends in a kill. Then whatever is left is opened as a user
would: it holds what was acknowledged, and is the learner that never stopped. No error but ours may come out.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import safespot as ss
from tests.reliability import survival

CALLS = {
    "close": ("EIO",),
    "fdatasync": ("EIO", "ENOSPC"),
    "flock": ("EAGAIN", "EIO", "ENOLCK"),
    "fsync": ("EDQUOT", "EIO", "ENOSPC"),
    "ftruncate": ("EIO", "ENOSPC"),
    "getdents64": ("EIO",),
    "lseek": ("EIO",),
    "mkdir": ("ENOSPC",),
    "newfstatat": ("EIO",),
    "openat": ("EIO", "EMFILE", "ENOSPC"),
    "read": ("EIO",),
    "rename": ("EIO", "ENOSPC"),
    "unlink": ("EIO",),
    "write": ("EDQUOT", "EINTR", "EIO", "ENOSPC"),
}
KILL = "SIGKILL"
GOAL = 5
REFUSED, BROKEN = 3, 4
PATIENCE = 60.0


def available() -> str:
    """Why faults cannot be made here; empty: they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    with tempfile.TemporaryDirectory() as name, _traced(Path(name), "trace=close") as lines:
        pass
    return "" if lines else "strace may not trace processes here"


@dataclass(frozen=True)
class Fault:
    """The n-th call of a kind, and what becomes of it."""

    call: str
    number: int
    error: str

    @property
    def options(self) -> str:
        """For strace."""
        how = f"signal={KILL}" if self.error == KILL else f"error={self.error}"
        return f"inject={self.call}:{how}:when={self.number}"


@dataclass
class Outcome:
    """How a process fared."""

    code: int  # of its end; negative: a signal
    said: str
    acknowledged: int


def faults() -> list[Fault]:
    """Every call of every kind, with every error, as many as a process makes that nothing is done to."""
    found = []
    with tempfile.TemporaryDirectory(dir=survival._memory()) as name:
        with survival.short_journals():  # whatever is imported on first use is imported now
            survival.feed(Path(name, "warm"), lambda t: None, GOAL, sessions=2)
        with _traced(Path(name), f"trace={','.join(CALLS)}") as lines:
            pass
        counts = {call: sum(line.startswith(f"{call}(") for line in lines) for call in CALLS}
    for call, errors in CALLS.items():
        for number in range(1, counts[call] + 1):
            found += [Fault(call, number, error) for error in (*errors, KILL)]
    return found


def inject(how_many: int | None = None, seed: int = 0) -> tuple[int, dict[str, int], list[str]]:
    """Make some of the faults, or all: how many, how the processes fared, and what went wrong."""
    every = faults()
    chosen = every if how_many is None else random.Random(seed).sample(every, how_many)
    fared, wrong = {"went on": 0, "refused": 0, "killed": 0}, []
    survival.digest_after(GOAL + 1)
    for fault in chosen:
        with tempfile.TemporaryDirectory(dir=survival._memory()) as name:
            outcome = _run(Path(name), fault)
            if outcome.code == 0:
                fared["went on"] += 1
            elif outcome.code == REFUSED:
                fared["refused"] += 1
            elif outcome.code == -signal.SIGKILL and fault.error == KILL:
                fared["killed"] += 1
            else:
                wrong.append(f"{fault}: ended with {outcome.code}: {outcome.said}")
                continue
            if not Path(name, "learner").exists() and outcome.acknowledged == 0:
                continue
            with survival.short_journals():
                found = survival.damage(Path(name, "learner"), outcome.acknowledged, GOAL)
            if found:
                wrong.append(f"{fault}: {found}")
    return len(chosen), fared, wrong


def _run(folder: Path, fault: Fault) -> Outcome:
    with _traced(folder, fault.options, f"trace={fault.call}"):
        pass
    said = folder / "said"
    return Outcome(
        int((folder / "code").read_text()),
        said.read_text() if said.exists() else "",
        int.from_bytes((folder / "count").read_bytes(), "little"),
    )


@contextlib.contextmanager
def _traced(folder: Path, *options: str) -> Iterator[list[str]]:
    """A process that works under strace; what strace saw of it, and files that say how it ended."""
    (folder / "count").write_bytes(bytes(8))
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        _work(folder, ready, go)
    os.close(ready)
    trace = folder / "trace"
    command = ["strace", "-q", "-o", str(trace), "-p", str(child)]
    for option in options:
        command += ["-e", option]
    strace = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE
    while not _is_traced(child) and strace.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    os.write(go, b"x")
    os.close(go)
    (folder / "code").write_text(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    strace.wait(PATIENCE)
    yield trace.read_text().splitlines() if trace.exists() else []


def _is_traced(process: int) -> bool:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("TracerPid:"):
                return line.split()[1] != "0"
    return False


def _work(folder: Path, ready: int, go: int) -> None:
    """In the process: everything that is not the learner's own is done beforehand."""
    signal.alarm(int(PATIENCE))
    warnings.simplefilter("ignore")
    note = os.open(folder / "count", os.O_RDWR)
    said = os.open(folder / "said", os.O_RDWR | os.O_CREAT)
    seen = [survival.episode(t) for t in range(1, GOAL + 1)]
    os.close(go)
    code = BROKEN
    with survival.short_journals():
        try:
            select.select([ready], [], [])  # a call of a kind that no fault is made of
            for goal in (2, GOAL):
                with ss.open(folder / "learner", survival.GIVEN) as learner:
                    os.pwrite(note, (learner.episode - 1).to_bytes(8, "little"), 0)
                    for t in range(learner.episode, goal + 1):
                        learner.observe(seen[t - 1])
                        os.pwrite(note, t.to_bytes(8, "little"), 0)
            code = 0
        except ss.SafespotError as problem:
            os.pwrite(said, str(problem).encode(), 0)
            code = REFUSED
        except BaseException as problem:
            os.pwrite(said, repr(problem).encode(), 0)
        finally:
            os._exit(code)
