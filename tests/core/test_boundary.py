"""What Python hands over: what is right works; anything else is a typed error, and never a crash."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import _core
from safespot.evidence.meter import meter_levels
from safespot.model.simulation import as_laws, draw_noise
from safespot.signals.totals import declare
from safespot.spot import visits
from tests.core.support import Bound, CoreTraining, Record, inside, wild_episodes
from tests.core.test_truth import empty_episode
from tests.support.trails import example, spot

Array = Any
ERRORS = (TypeError, ValueError, AttributeError)
S, A, H, M = 4, 3, 3, 2


def wrong(array: Array) -> dict[str, Any]:
    """An array as it must not be: other shapes, types, strides, alignment, order, and no array at all."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    unaligned = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    cases = {
        "one axis more": array[None],
        "no axes": np.zeros((), array.dtype),
        "longer": np.zeros([n + 1 for n in array.shape], array.dtype),
        "empty": np.zeros([0] * array.ndim, array.dtype),
        "other type": array.astype(np.float32 if array.dtype.kind == "f" else np.float64),
        "objects": array.astype(object),
        "other bytes": array.astype(array.dtype.newbyteorder(">")),
        "strided": wide[..., ::2],
        "backwards": array[..., ::-1],
        "unaligned": unaligned,
        "list": array.tolist(),
        "none": None,
        "text": "array",
        "number": 3.0,
        "memory": memoryview(array),
    }
    if array.ndim > 1:
        cases["Fortran"] = np.asfortranarray(array)
    return {
        name: case for name, case in cases.items()
        if not (isinstance(case, np.ndarray) and same_kind(case, array))
    }  # fmt: skip


def same_kind(one: Array, other: Array) -> bool:
    return bool(
        one.dtype == other.dtype and one.shape == other.shape and one.flags.c_contiguous and one.flags.aligned
    )  # fmt: skip


def bound(dense: bool = True) -> Bound:
    made = Bound(spot(example(), 200, window=0.5), dense=dense)
    for e in wild_episodes(made.learner, 70, 1):
        made.observe(e)
    return made


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("part", ["state", "statistics", "successors", "window"])
def test_records_of_a_learner(part: str, dense: bool) -> None:
    b = bound(dense)
    records = {
        "state": b.state, "statistics": b.statistics, "successors": b.statistics.successors, "window": b.window,
    }  # fmt: skip
    fields = {
        name: array
        for name, array in records[part]._asdict().items()
        if isinstance(array, np.ndarray)
        and not name.startswith("flat_")
        and (part != "successors" or (name == "dense") == dense)
    }

    def rebind(field: str, value: Any) -> None:
        changed = {name: record._asdict() for name, record in records.items()}
        if value is rebind:
            del changed[part][field]
        else:
            changed[part][field] = value
        changed["statistics"]["successors"] = Record(**changed["successors"])
        statistics = _core.Statistics(Record(**changed["statistics"]))
        window = _core.Window(Record(**changed["window"]))
        _core.Spot(b.learner.rates, Record(**changed["state"]), statistics, window)

    for field, array in fields.items():
        rebind(field, array.copy())
        for name, value in {**wrong(array), "missing": rebind}.items():
            if (part, name) == ("successors", "empty") and field in (
                "dense",
                "counts",
                "states",
                "actions",
            ):
                continue  # may be empty for one kind of list
            with pytest.raises(ERRORS):
                rebind(field, value)
        frozen = array.copy()
        frozen.setflags(write=False)
        if field in ("mask", "gamma"):
            rebind(field, frozen)
        else:
            with pytest.raises(TypeError, match="writable"):
                rebind(field, frozen)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("met", 10**9),
        ("met", -1),
        ("how_many", 99),
        ("how_many", -1),
        ("known", True),
        ("where", 10**9),
        ("where", -7),
        ("length", 10**9),
        ("length", -1),
        ("room", 10**12),
        ("states", S),
        ("states", -2),
        ("actions", A),
        ("actions", -1),
        ("used", 10**15),
        ("used", -1),
        ("span", 10**15),
        ("span", -1),
        ("tree", 10**6),
        ("tree", -5),
        ("pairs", 10**6),
        ("pairs", -3),
        ("finished", -1),
        ("finished", 2**62),
    ],
)
def test_places_that_do_not_exist(field: str, value: int, dense: bool) -> None:
    """Written into arrays that are bound already."""
    b = bound(dense)
    record = next(
        r for r in (b.statistics, b.statistics.successors, b.window, b.state) if field in r._fields
    )
    array = getattr(record, field)
    unused = dense and record is b.statistics.successors
    (episode,) = wild_episodes(b.learner, 1, 3)
    e = inside(episode, A)
    if unused or array.size == 0:
        return
    array[...] = value
    if field == "known" and b.statistics.known.all() and (b.statistics.how_many == S).all():
        return
    with pytest.raises(ValueError, match=r"places|room|finished"):
        b.core.observe(e)
    if field != "used":  # which may just be room for no more
        with pytest.raises(ValueError, match=r"places|finished"):
            b.core.derive()


@pytest.mark.parametrize("dense", [True, False])
def test_episodes(dense: bool) -> None:
    b = bound(dense)
    (episode,) = wild_episodes(b.learner, 1, 2)
    e = inside(episode, A)
    statistics = _core.Statistics(b.statistics)
    before = {name: array.copy() for name, array in b.arrays().items()}
    for field in e._fields:
        for value in [*wrong(getattr(e, field)).values(), *ruined(getattr(e, field))]:
            for core in (b.core, statistics):
                with pytest.raises(ERRORS):
                    core.observe(e._replace(**{field: value}))
    for name, array in b.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    with pytest.raises(TypeError):
        b.core.observe(None)


def ruined(array: Array) -> list[Array]:
    """Indices out of range."""
    if array.dtype.kind != "i":
        return []
    cases = []
    for place in (0, -1):
        for value in (-1, 10**6, 2**62, -(2**62)):
            case = array.copy()
            case[place] = value
            cases.append(case)
    return cases


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308])
def test_numbers_that_are_none_do_no_harm(value: float, dense: bool) -> None:
    """Signals and derived values may be anything: they decide no place."""
    b = bound(dense)
    rng = np.random.default_rng(0)
    for episode in wild_episodes(b.learner, 30, 4):
        e = inside(episode, A)
        for array in (e.rewards, e.constraints, e.thresholds, b.state.deficit, b.state.logits, b.state.pi, b.state.lam,
                      b.window.sums, b.state.weight, b.statistics.sums):  # fmt: skip
            array.reshape(-1)[rng.integers(array.size)] = value
        while not b.core.has_room:
            return
        b.core.observe(e)
        b.core.derive()


def test_a_bound_array_cannot_be_resized_or_freed() -> None:
    learner = spot(example(), 200)
    b = Bound(learner)
    pi = b.state.pi
    with pytest.raises(ValueError, match="cannot resize"):
        pi.resize((100, 100, 100), refcheck=False)
    (episode,) = wild_episodes(learner, 1, 0)
    core, e = b.core, inside(episode, A)
    del b, pi  # the core keeps what it looks at
    for _ in range(20):
        core.observe(e)


def truth() -> tuple[Any, ...]:
    problem = example()
    noise = draw_noise(problem, ss.streams(0), 3)
    pi = np.full((H, S, A), 1.0 / A)
    return problem, noise, pi, empty_episode(H, M), np.array(problem.cmdp.model.alpha)


def test_the_truth() -> None:
    problem, noise, pi, seen, alpha = truth()
    model, laws = problem.cmdp.model, as_laws(problem)
    core = _core.Truth(model, laws)
    records: dict[str, Any] = {"model": model, "P": model.P, "laws": laws}
    for name, field in [(name, f) for name, record in records.items() for f in record._fields]:
        record = records[name]
        array = getattr(record, field)
        if not isinstance(array, np.ndarray) or array.size == 0 or field == "mask":
            continue
        for case in wrong(array).values():
            changed = record._replace(**{field: case})
            with pytest.raises(ERRORS):
                _core.Truth(
                    model._replace(P=changed)
                    if name == "P"
                    else changed
                    if name == "model"
                    else model,
                    changed if name == "laws" else laws,
                )
    for k, array in enumerate((alpha, pi)):
        for case in wrong(array).values():
            with pytest.raises(ERRORS):
                core.play(case if k == 0 else alpha, noise, 0, case if k == 1 else pi, seen)
    for field in noise._fields:
        for case in wrong(getattr(noise, field)).values():
            with pytest.raises(ERRORS):
                core.play(alpha, noise._replace(**{field: case}), 0, pi, seen)
    for field in seen._fields:
        for case in wrong(getattr(seen, field)).values():
            with pytest.raises(ERRORS):
                core.play(alpha, noise, 0, pi, seen._replace(**{field: case}))
    for n in (-1, 3, 2**40):
        with pytest.raises(ValueError, match="n must be"):
            core.play(alpha, noise, n, pi, seen)
    for h, pair in ((-1, 0), (H, 0), (0, -1), (0, S * A)):
        with pytest.raises(ValueError, match="pair must lie"):
            core.step(alpha, noise, 0, h, pair, seen)
    for case in wrong(np.zeros(1 + M)).values():
        with pytest.raises(ERRORS):
            core.values(pi, case)
    for value in (math.nan, -3.0, 1e300):  # no probabilities: still a state and an action
        core.play(alpha, noise, 0, np.full((H, S, A), value), seen)
        assert ((seen.pairs >= 0) & (seen.pairs < S * A)).all()
        core.values(np.full((H, S, A), value), np.zeros(1 + M))


def test_sparse_rows_that_lead_nowhere() -> None:
    problem = example(sparse=True, steps=True)
    model, laws = problem.cmdp.model, as_laws(problem)
    for field, value in (("starts", -1), ("starts", 10**9), ("successors", S), ("successors", -1)):
        array = np.array(getattr(model.P, field))
        for place in (0, array.size // 2, array.size - 1):
            ruin = array.copy()
            ruin.reshape(-1)[place] = value
            with pytest.raises(ValueError, match="sparse transitions"):
                _core.Truth(model._replace(P=model.P._replace(**{field: ruin})), laws)


def test_sequences_and_meters() -> None:
    declared = declare(spot(example(), 10).interface)
    state = Record(means=np.zeros((2 * M, _core.ChangingMeans.width)), reward=np.zeros((2, 4)))
    meter: Any = _core.Meter(declared, state)
    levels = np.array(meter_levels(M, 0.05))
    for name in ("means", "reward"):
        for case in wrong(getattr(state, name)).values():
            with pytest.raises(ERRORS):
                _core.Meter(declared, Record(**{**vars(state), name: case}))
    sums = np.zeros((2, 2 + 4 * M))
    for case in wrong(sums).values():
        with pytest.raises(ERRORS):
            meter.observe(case)
    for case in wrong(levels).values():
        with pytest.raises(ERRORS):
            meter.read(case, np.zeros(2 + 2 * M))
    state.means[0, 0] = math.nan
    with pytest.raises(ValueError, match="count"):
        meter.observe(sums)
    rows, targets = np.full((1, _core.FixedMean.width), math.nan), _core.Targets(10.0)
    for value in (math.nan, -math.inf, 1e308, -1.0):
        rows[:] = value
        _core.FixedMean.observe(rows, 0, targets, math.inf)
        _core.FixedMean.read(rows, 0, targets, math.nan)
    for r in (-1, 1, 2**40):
        with pytest.raises(ValueError, match="rows"):
            _core.Bets.observe(np.zeros((1, 8)), r, 0.0, 0.5, 0.5)


def test_a_learner_in_use_is_refused() -> None:
    """Another thread that feeds a learner while a run plays gets an error, and no learner that is half of each."""
    problem = example()
    learner = spot(problem, 10**7)
    training = CoreTraining(problem, learner, 10**6, 0, 10**6, "grid")
    training.prepare(20_000)
    b = Bound(learner)
    watching = Record(tracker=training.tracker, record=training.record, every=False)
    state = Record(means=np.zeros((2 * M, _core.ChangingMeans.width)), reward=np.zeros((2, 4)))
    meter = _core.Meter(training.metering.declared, state)
    t = training.playing.truth
    loop = _core.Loop(
        _core.Truth(t.model, t.laws),
        t,
        training.playing,
        watching,
        training.metering,
        meter,
        b.core,
    )
    (episode,) = wild_episodes(learner, 1, 0)
    e, refused = inside(episode, A), 0
    thread = threading.Thread(target=loop.play, args=(0, 16))
    thread.start()
    thread.join()
    size = len(training.playing.progress)
    thread = threading.Thread(target=lambda: [loop.play(0, size) for _ in range(20)])
    thread.start()
    while thread.is_alive():
        try:
            b.core.observe(e)
        except RuntimeError:
            refused += 1
    assert refused or b.state.finished[0] > 0
    for first, last in ((-1, 2), (3, 2), (0, size + 1), (2**40, 2**41)):
        with pytest.raises(ValueError, match="first and last"):
            loop.play(first, last)


def test_sizes_that_do_not_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "DENSE", 2**22)
    b, other = bound(), Bound(ss.Spot(S + 1, A, H, M, episodes=9, rho=1.0))
    with pytest.raises(ValueError, match="expected"):
        _core.Spot(
            b.learner.rates, other.state, _core.Statistics(b.statistics), _core.Window(b.window)
        )
    with pytest.raises(ValueError, match="window"):
        _core.Spot(
            b.learner.rates, b.state, _core.Statistics(b.statistics), _core.Window(other.window)
        )
    with pytest.raises(ValueError, match="level"):
        Bound(b.learner, "x86-64-v9")
    rates = b.learner.rates._replace(start=S + 1)
    with pytest.raises(ValueError, match="start"):
        _core.Spot(rates, b.state, _core.Statistics(b.statistics), _core.Window(b.window))
