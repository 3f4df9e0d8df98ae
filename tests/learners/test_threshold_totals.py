"""Bounds on an episode's threshold: each kind of factor against the slow reading, and how wide they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from safespot.arrays import InsideEpisode
from safespot.errors import InvalidFile
from safespot.kernels.jit import no_refcount
from safespot.learners.limits import limits_arrays
from safespot.learners.threshold_totals import (
    HintTotals,
    bounds_at,
    check_totals_state,
    grow_totals,
    has_room_for_hints,
    learn_from_totals,
    make_totals,
    observe_totals,
    total_rates,
    total_state,
    totals_have_room,
)
from tests.evidence import reference as ref
from tests.support.damage import put

Array = Any
H, SHARE = 5, 0.025


@no_refcount
def watch(rates: Any, state: Any, hints: Array, lower: Array, upper: Array, first: int) -> int:
    for t in range(first, hints.shape[0]):
        if not totals_have_room(state):
            return t
        observe_totals(rates, state, hints[t], lower, upper)
    return int(hints.shape[0])


def bounds(hints: Array, **options: Any) -> tuple[Array, Array, Any]:
    """Of hints ``[n,H,m]``, after all of them; and the state."""
    n, steps, m = hints.shape
    rates = total_rates(m, steps, 0.05, **options)
    state, lower, upper = total_state(rates, steps), np.zeros(m), np.full(m, float(steps))
    if "limits" in options:
        lower, upper = options["limits"][0].copy(), options["limits"][1].copy()
    t = 0
    while t < n:
        t = watch(rates, state, hints, lower, upper, t)
        state = state if t == n else grow_totals(state)
    return lower, upper, state


def hints_of(n: int, seed: int = 0, missing: float = 0.0, m: int = 1, steps: int = H) -> Array:
    rng = np.random.default_rng(seed)
    hints = rng.random((n, steps, m)) * np.linspace(0.2, 1.0, steps)[:, None]
    hints[rng.random((n, steps)) < missing] = np.nan
    return hints


def best(x: Array, low: float, high: float, planned: int) -> tuple[float, float]:
    """The best bounds so far of numbers x ``[n,2]`` for the lower and the upper side, read when they are due."""
    n, due, found = len(x), 1, [low, high]
    for t in range(1, n + 1):
        if t >= due:
            due = t + max(1, t // 32)
            a = ref.fixed_mean((x[:t, 0] - low) / (high - low), SHARE, planned)
            b = ref.fixed_mean((high - x[:t, 1]) / (high - low), SHARE, planned)
            found = [max(found[0], low + (high - low) * a), min(found[1], high - (high - low) * b)]
    return found[0], found[1]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_totals_are_those_of_the_slow_reading(missing: float) -> None:
    hints = hints_of(150, missing=missing)
    lower, upper, _ = bounds(hints, planned=100)
    x = np.stack([np.nan_to_num(hints[:, :, 0], nan=worst).sum(axis=1) for worst in (0, 1)], axis=1)
    np.testing.assert_allclose([lower[0], upper[0]], best(x, 0.0, float(H), 100), rtol=1e-8)


def test_a_total_in_equal_shares_counts_as_it_is_and_a_declared_range_narrows() -> None:
    rng = np.random.default_rng(1)
    total = 1.0 + rng.random((200, 1))
    shares = np.repeat(total[:, None] / H, H, axis=1)
    lower, upper, _ = bounds(shares, planned=100)
    np.testing.assert_allclose(
        [lower[0], upper[0]], best(total.repeat(2, 1), 0.0, H, 100), rtol=1e-8
    )
    limits = np.array([[1.0], [2.0]])
    close, above, _ = bounds(shares, planned=100, limits=limits)
    np.testing.assert_allclose(
        [close[0], above[0]], best(total.repeat(2, 1), 1.0, 2.0, 100), rtol=1e-8
    )
    assert above[0] - close[0] < upper[0] - lower[0]


def test_steps_share_the_weights_of_their_episode() -> None:
    """A factor per step, but one weight per episode: else steps would not count alike."""
    n, hints = 60, hints_of(60)
    lower, _, state = bounds(hints, independent_hints=True, planned=100)
    x = hints[:, :, 0]
    k = np.arange(-6, 10)
    rates, prior = np.sqrt(10.0 / (100.0 * H * 4.0**k)), 1.0 / (1.0 + k**2)
    c = (0.5 + np.cumsum(x, axis=0) - x) / np.arange(1, n + 1)[:, None]
    spread = np.concatenate([[0.0], np.cumsum(((x - c) ** 2).sum(axis=1))[:-1]])
    deviation = np.sqrt((1 / 16 + spread) / (H * np.arange(n) + 1))
    weights = np.minimum(rates / deviation[:, None], (0.9 / c.max(axis=1))[:, None])
    logs = np.log1p(weights[:, None] * (x - c)[:, :, None]).sum(axis=(0, 1))
    logs += (weights * c.sum(axis=1)[:, None]).sum(axis=0) + np.log(prior / prior.sum())

    def evidence(alpha: float) -> float:
        return float(np.logaddexp.reduce(logs - weights.sum(axis=0) * alpha))

    np.testing.assert_allclose(state.means.slope[0], H * weights.sum(axis=0), rtol=1e-10)
    found = ref.root(evidence, math.log(1 / SHARE), 0.0, H)
    assert lower[0] == pytest.approx(found, rel=0.005)  # read two episodes earlier


def test_a_shared_threshold_is_a_mean_per_sample() -> None:
    hints = hints_of(400, missing=0.4)
    lower, upper, _ = bounds(hints, shared_threshold=True)
    seen = ~np.isnan(hints[:, :, 0])
    n, s = seen.sum(axis=1).astype(float), np.nan_to_num(hints[:, :, 0]).sum(axis=1)
    # Read at 400 for the last time or a little earlier: the slow reading of all of them is close.
    assert lower[0] == pytest.approx(H * ref.sample_mean(n, s, H, SHARE), abs=0.02)
    assert upper[0] == pytest.approx(H - H * ref.sample_mean(n, n - s, H, SHARE), abs=0.02)
    charged = bounds(hints)
    assert upper[0] - lower[0] < 0.4 * (charged[1][0] - charged[0][0])


def test_a_hint_once_an_episode_is_enough_where_steps_share_a_threshold() -> None:
    rng = np.random.default_rng(2)
    hints = np.full((4_000, 14, 1), np.nan)
    hints[:, -1, 0] = np.clip(6 / 14 + 0.2 * rng.standard_normal(4_000), 0.0, 12 / 14)
    lower, upper, _ = bounds(hints, shared_threshold=True, independent_hints=True)
    assert lower[0] <= 6.0 <= upper[0]
    assert upper[0] - lower[0] < 0.4


def test_a_window_is_that_of_the_slow_reading() -> None:
    n, hints = 300, hints_of(300, missing=0.1, m=2)
    lower, upper, state = bounds(hints, window=0.3)
    held = (state.span[2] + np.arange(state.span[1])) % len(state.ring)
    assert state.span.tolist()[:2] == [n, 90]
    for i in range(2):
        x = [np.nan_to_num(hints[-90:, :, i], nan=worst).sum(axis=1) / H for worst in (0, 1)]
        for r, expected in ((2 * i, x[0]), (2 * i + 1, 1.0 - x[1])):
            np.testing.assert_allclose(state.ring[held, r, 0], expected, atol=1e-15)
        share = 0.05 / 4 / (n * (n + 1))
        sides = [state.ring[held, 2 * i + side].T for side in range(2)]
        sums = [ref.window_sum(x, y, share) for x, y in sides]
        assert lower[i] == pytest.approx(H * sums[0] / 90, rel=1e-8)
        assert upper[i] == pytest.approx(H - H * sums[1] / 90, rel=1e-8)


def test_a_window_follows_a_threshold_that_drifts() -> None:
    rng, n = np.random.default_rng(3), 6_000
    a = np.linspace(0.2, 0.8, n)
    hints = (rng.random((n, H, 1)) < a[:, None, None]).astype(float)
    lower, upper, _ = bounds(hints, window=0.1)
    assert lower[0] <= H * a[-600:].mean() <= upper[0]
    assert lower[0] > H * a.mean()


def test_at_20000_episodes_of_dosing_the_tolerance_is_known_to_3_hundredths() -> None:
    rng = np.random.default_rng(4)
    hints = 6 / 14 + np.clip(0.2 * rng.standard_normal((20_000, 14, 1)), -6 / 14, 6 / 14)
    lower, upper, _ = bounds(hints)
    assert lower[0] <= 6.0 <= upper[0]
    assert upper[0] - lower[0] <= 0.06


def test_constraints_share_delta_and_the_rest_is_their_own() -> None:
    hints = hints_of(200, m=2)
    both = bounds(hints)
    alone = bounds(np.ascontiguousarray(hints[:, :, :1]))
    assert both[0][0] < alone[0][0]
    assert both[1][0] > alone[1][0]


# A learner's record of them, and files

NO_RADII: Any = None  # totals need none
KINDS: dict[str, dict[str, Any]] = {
    "episodes": {}, "steps": {"independent_hints": True}, "shared": {"shared_threshold": True},
    "samples": {"independent_hints": True, "shared_threshold": True}, "window": {"window": 0.3},
}  # fmt: skip


def learned(kind: str, n: int, m: int = 2, **options: Any) -> tuple[HintTotals, Array, Array]:
    """A record that has seen n episodes, and the bounds that it handed on."""
    totals = make_totals(total_rates(m, H, 0.05, planned=50, **KINDS[kind], **options), H)
    lower, upper = np.zeros(m), np.full(m, float(H))
    for hints in hints_of(n, missing=0.1, m=m):
        if not has_room_for_hints(totals):
            totals = totals._replace(state=grow_totals(totals.state))
        episode = InsideEpisode(
            np.zeros(H + 1, np.int64), np.zeros(H, np.int64), np.zeros(H), np.zeros((H, m)), hints
        )
        learn_from_totals(totals, NO_RADII, episode, lower, upper)
    return totals, lower, upper


@pytest.mark.parametrize("kind", KINDS)
def test_a_learner_has_the_bounds_of_its_record(kind: str) -> None:
    n = 200 if kind in ("window", "shared") else 40
    totals, lower, upper = learned(kind, n)
    np.testing.assert_array_equal([lower, upper], totals.bounds)
    found = bounds(hints_of(n, missing=0.1, m=2), planned=50, **KINDS[kind])
    np.testing.assert_array_equal([lower, upper], found[:2])
    assert (lower[0], upper[0]) != (lower[1], upper[1])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "window"])
def test_bounds_at_another_confidence_are_read_from_the_same_episodes(kind: str) -> None:
    limits = np.array([[0.5, 0.0], [4.5, 5.0]])
    totals, lower, upper = learned(kind, 200 if kind == "shared" else 40, limits=limits)
    before = [array.copy() for array in (*totals.state.means, totals.bounds)]
    low, high = bounds_at(totals, totals.rates.level)
    # At the learner's own confidence they are its own, but for when they were read.
    np.testing.assert_allclose([low, high], [lower, upper], atol=0.1)
    wide_low, wide_high = bounds_at(totals, totals.rates.level + 3.0)
    assert (wide_low < low).all()
    assert (high < wide_high).all()
    none = bounds_at(totals, 1e6)
    np.testing.assert_array_equal(none, limits)
    for now, then in zip((*totals.state.means, totals.bounds), before, strict=True):
        if now is not totals.state.means.terms:  # a buffer
            np.testing.assert_array_equal(now, then)


def test_shared_samples_are_read_when_their_number_has_grown() -> None:
    """The bounds stand still between readings, which come at counts that grow by one part in 32."""
    due, totals = 1, learned("shared", 0)[0]
    for t, hints in enumerate(hints_of(140, m=2), start=1):
        before = totals.bounds.copy()
        observe_totals(totals.rates, totals.state, hints, totals.bounds[0], totals.bounds[1])
        if t < due:
            np.testing.assert_array_equal(totals.bounds, before)
        else:
            due = t + max(1, t // 32)
        assert totals.state.due.tolist() == [due]
    assert (totals.bounds[0] > 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_has_room_for_what_its_kind_needs(kind: str) -> None:
    """The arrays of a file: another shape would not be that of files that exist."""
    state, window = learned(kind, 0)[0].state, kind == "window"
    rows = 0 if kind in ("shared", "window") else 4
    assert state.means.weight.shape == (rows, 16)
    assert state.by_step.shape == (4 if kind == "steps" else 0, H)
    assert state.samples.shape == (2 if kind == "shared" else 0, 5)
    assert state.powers.shape == (4 if window else 0, 4)
    assert state.ring.shape == ((64, 4, 2) if window else (0, 0, 2))
    assert (state.span.shape, state.due.shape) == ((3,), (1,))


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("window", "span", put(0, -1)), ("window", "span", put(0, 2**53 + 1)), ("window", "span", put(1, 11)),
        ("window", "span", put(2, 64)), ("window", "span", put(2, -1)), ("window", "ring", put((0, 0, 0), 1.5)),
        ("window", "ring", put((0, 0, 1), -1.5)), ("window", "ring", lambda a: a[:0]),
        ("window", "ring", lambda a: a[:5]), ("window", "ring", lambda a: a[:, :2]),
        ("window", "powers", put((0, 0), np.nan)), ("window", "powers", lambda a: a[:1]),
        ("window", "bounds", put((0, 0), np.inf)), ("episodes", "ring", lambda a: np.zeros((64, 0, 2))),
        ("episodes", "span", put(0, 7)), ("episodes", "span", put(1, 1)),
        ("episodes", "means.product", put((0, 0), 0.0)), ("episodes", "means.power", put((0, 0), 0.5)),
        ("episodes", "means.total", put(0, -1.0)), ("episodes", "means.total", put(0, 41.0)),
        ("episodes", "means.lower", put(0, -0.1)), ("episodes", "means.lower", put(0, 1.1)),
        ("episodes", "means.counted", put(0, 400.0)), ("episodes", "means.weight", lambda a: a[:, 1:]),
        ("episodes", "means.weight", lambda a: a.astype(np.float32)), ("episodes", "due", put(0, np.nan)),
        ("episodes", "bounds", put((0, 0), -0.1)), ("episodes", "bounds", put((1, 1), H + 0.1)),
        ("episodes", "bounds", lambda a: a[::-1].copy()), ("shared", "samples", lambda a: a[:, :4]),
    ],
)  # fmt: skip
def test_totals_from_a_file_must_fit(kind: str, name: str, change: Any) -> None:
    totals, fresh = learned(kind, 40)[0], learned(kind, 0)[0]
    arrays = {k: v.copy() for k, v in limits_arrays(totals).items()}
    check_totals_state(fresh, arrays)
    with pytest.raises(InvalidFile):
        check_totals_state(fresh, {**arrays, name: change(arrays[name])})
