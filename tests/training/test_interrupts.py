"""Ctrl-C at every instruction of a boundary: whole episodes are left, and to go on gives the bits of no interrupt."""

from __future__ import annotations

import functools
import itertools
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
import safespot.training.learn as training
from safespot import files
from safespot.syscalls import InterruptsDeferred
from safespot.training import learning, loop, metrics
from tests.support.interrupts import heard, interrupted, places

ears = pytest.fixture(autouse=True)(heard)

STEPS = (
    "learners/*.py",
    "evidence/interface.py",
    "evidence/meter.py",
    "evidence/alarm.py",
    "syscalls.py",
)
LOOPS = ("training/learn*.py", "learners/learner.py", "learners/guard.py", "syscalls.py")
CAREFUL = [[1, 0], [1, 0]]  # of `machine`


@functools.cache
def machine() -> ss.Problem:
    return ss.problems.make("machine")


@functools.cache
def episode() -> ss.Episode:
    arrays: Any = [0, 0, 0], [1, 0], [10, 4], [[2], [0]], [[1], [0]]
    return ss.Episode(*arrays, clipped=1)


MAKERS: dict[str, Callable[[], Any]] = {
    "spot": lambda: ss.Spot(**machine().interface, episodes=500, slack=1.0, window=0.5),
    "epochs": lambda: ss.SpotEpochs(**machine().interface),
    "planner": lambda: ss.learners.make("opt-cmdp", machine().interface, episodes=500, replan="always"),
    "guard": lambda: ss.Guard(ss.SpotEpochs(**machine().interface), CAREFUL, 40),
}  # fmt: skip


def bits(learner: Any) -> str:
    """A digest of all that a learner carries, plays, and doubts."""
    return files.checksum({**learner.arrays(), "pi": learner.policy}, vars(learner.doubts))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("before", [0, 3, 63])  # after the 64th, epochs make a plan
@pytest.mark.parametrize("name", MAKERS)
def test_observe(name: str, before: int) -> None:
    def learner() -> Any:
        made = MAKERS[name]()
        for _ in range(before):
            made.observe(episode())
        return made

    whole = learner()
    trail = [bits(whole)]
    for _ in range(3):
        whole.observe(episode())
        trail.append(bits(whole))
    cut, ready = 0, learner()
    for k in places(lambda: ready.observe(episode()), *STEPS, most=60):
        ours = learner()
        stop = interrupted(functools.partial(ours.observe, episode()), k, *STEPS)
        cut += stop is not None
        done = ours.episode - 1 - before
        assert bits(ours) == trail[done], f"at instruction {k}"
        for _ in range(3 - done):
            ours.observe(episode())
        assert bits(ours) == trail[3], f"at instruction {k}"
    assert cut > 10


@pytest.mark.parametrize("kind", [ss.SafetyMeter, ss.SafetyAlarm])
def test_evidence(kind: Any) -> None:
    def numbers(evidence: Any) -> tuple[Any, ...]:
        state = evidence.state
        arrays = (*state.means[:-1], state.reward) if kind is ss.SafetyMeter else state
        return (dict(vars(evidence.doubts)), *(array.tobytes() for array in arrays))

    once = kind(machine().interface)
    trail = [numbers(once)]
    once.observe(episode())
    trail.append(numbers(once))
    ready = kind(machine().interface)
    for k in places(lambda: ready.observe(episode()), *STEPS, most=60):
        ours = kind(machine().interface)
        interrupted(functools.partial(ours.observe, episode()), k, *STEPS)
        assert numbers(ours) in trail, f"at instruction {k}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_learn(name: str) -> None:
    total = 90

    def run(learner: Any, episodes: int = total) -> ss.Run:
        return ss.learn(machine(), learner, episodes, seed=4, record="all", callback=lambda _: None)

    theirs = MAKERS[name]()
    record, cut = run(theirs), 0
    most = 30 if name != "planner" else 15
    for k in places(lambda: run(MAKERS[name]()), *LOOPS, most=most):
        ours = MAKERS[name]()
        stop = interrupted(functools.partial(run, ours), k, *LOOPS)
        cut += check_stopped(stop, ours, record, total)
        if ours.episode <= total:
            run(ours, total + 1 - ours.episode)
        assert bits(ours) == bits(theirs), f"at instruction {k}"
    assert cut > most // 4


@pytest.mark.parametrize("name", ["spot", "guard"])
def test_learn_in_an_environment(name: str) -> None:
    total = 12

    def run(learner: Any, episodes: int = total) -> ss.Run:
        env = ss.gym.ProblemEnv("machine")
        return ss.learn(env, learner, episodes, seed=4, record="all")

    record, cut = run(MAKERS[name]()), 0
    for k in places(lambda: run(MAKERS[name]()), *LOOPS, most=60):
        ours = MAKERS[name]()
        stop = interrupted(functools.partial(run, ours), k, *LOOPS)
        cut += check_stopped(stop, ours, record, total)
        theirs = MAKERS[name]()
        for episodes in (ours.episode - 1, total + 1 - ours.episode):
            if episodes:
                run(theirs, episodes)
        if ours.episode <= total:
            run(ours, total + 1 - ours.episode)
        assert bits(ours) == bits(theirs), f"at instruction {k}"
    assert cut > 20


def check_stopped(stop: KeyboardInterrupt | None, learner: Any, record: ss.Run, total: int) -> bool:
    """Check that the interrupt's run is that of the learner's episodes; return whether it came in the midst.

    It may be missing before the first episode, and after the last.
    """
    played = learner.episode - 1
    run: ss.Run | None = getattr(stop, "run", None)
    if run is None:
        assert played in (0, total)
        return False
    assert run.played == played
    assert run.episodes.tolist() == [*range(1, played + 1)]
    assert run.values.tolist() == record.values[:played].tolist()
    assert run.violations.tolist() == record.violations[:played].tolist()
    return bool(0 < played < total)


def test_a_durable_learner(tmp_path: Path) -> None:
    """An interrupt is no reason to open it again, and what is on the disk is what was learned."""
    parts = (*STEPS, "storage/durable.py")
    plain = [MAKERS["spot"]() for _ in range(3)]
    for n, each in enumerate(plain):
        for _ in range(n):
            each.observe(episode())
    trail = [bits(each) for each in plain]
    folders = itertools.count()

    def opened() -> Any:
        return ss.open(tmp_path / str(next(folders)), MAKERS["spot"]())

    with opened() as learner:
        where = places(lambda: learner.observe(episode()), *parts, most=60)
    for k in where:
        with opened() as learner:
            interrupted(functools.partial(learner.observe, episode()), k, *parts)
            done = learner.episode - 1
            assert bits(learner.learner) == trail[done], f"at instruction {k}"
            learner.observe(episode())
        with ss.open(learner.folder) as again:
            assert bits(again.learner) == trail[done + 1], f"at instruction {k}"


def test_an_interrupt_in_a_kernel_is_no_system_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba calls Python while it takes arguments apart; an interrupt there makes a SystemError of its answer."""
    compiled, calls = loop.play_chunk, [0]

    def as_numba_does(*arguments: Any) -> Any:
        calls[0] += 1
        answer = compiled(*arguments)
        try:
            if calls[0] == 2:
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise SystemError("a kernel returned a result with an exception set") from None
        return answer

    theirs, ours = MAKERS["epochs"](), MAKERS["epochs"]()
    ss.learn(machine(), theirs, 200, seed=1)
    monkeypatch.setattr(training, "play_chunk", as_numba_does)
    with pytest.raises(KeyboardInterrupt) as raised:
        ss.learn(machine(), ours, 200, seed=1)
    played = raised.value.run.played  # type: ignore[attr-defined]
    assert 0 < played == ours.episode - 1 < 200
    ss.learn(machine(), ours, 200 - played, seed=1)
    assert bits(ours) == bits(theirs)


@pytest.mark.parametrize("kind", ["problem", "environment"])
def test_an_interrupt_before_the_first_episode_has_an_empty_run(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grid(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return metrics.grid(*arguments)

    monkeypatch.setattr(learning, "grid", grid)
    learner = MAKERS["spot"]()
    what: Any = machine() if kind == "problem" else ss.gym.ProblemEnv("machine")
    with pytest.raises(KeyboardInterrupt) as raised:
        ss.learn(what, learner, 50)
    run = raised.value.run  # type: ignore[attr-defined]
    assert (run.played, run.episodes.tolist(), learner.episode) == (0, [], 1)
    assert run.learner is learner


def test_an_interrupt_waits_for_the_end_of_a_block_in_the_main_thread_alone() -> None:
    done: list[Any] = []

    def block() -> None:
        with InterruptsDeferred(), InterruptsDeferred():
            signal.raise_signal(signal.SIGINT)
            done.append("whole")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["whole"]

    def elsewhere() -> None:
        with InterruptsDeferred():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert done[1] is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with InterruptsDeferred():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
