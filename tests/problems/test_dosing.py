"""`dosing`: the equations against SciPy, the table against its recipe, and what the problem promises."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import safespot as ss
from safespot.problems import dosing
from safespot.problems.dosing import DEATH, DOSES, STATES, load, state_of
from safespot.problems.dosing.table import PATIENTS, course, rehearse, tabulate
from safespot.problems.dosing.tumor import LETHAL, Body, Patient, admit, dead, flow, treat


def always(action: int, horizon: int = 14) -> Any:
    """The policy that gives one dose, whatever it sees."""
    return np.tile(np.eye(len(DOSES))[action], (horizon, STATES, 1))


@pytest.fixture(scope="module")
def cmdp() -> ss.CMDP:
    return ss.problems.make("dosing").cmdp


# The simulator


def by_scipy(patient: Patient, body: Body, dose: float, days: float) -> tuple[Any, float]:
    """The equations as published, in SciPy's hands, with health integrated along."""
    p = patient._asdict()

    def slope(_: float, y: Any) -> list[float]:
        N, T, I, B, _ = y  # noqa: E741
        k = 1 - np.exp(-B)
        return [
            p["r2"] * N * (1 - p["b2"] * N) - p["c4"] * T * N - p["a3"] * k * N,
            p["r1"] * T * (1 - p["b1"] * T) - p["c2"] * I * T - p["c3"] * T * N - p["a2"] * k * T,
            p["s"]
            + p["w"] * I * T / (p["v"] + T)
            - p["c1"] * I * T
            - p["d1"] * I
            - p["a1"] * k * I,
            -p["d2"] * B + dose,
            max(0.0, 1 - T / 0.4),
        ]

    result = solve_ivp(slope, (0, days), [*body, 0.0], method="DOP853", rtol=1e-12, atol=1e-14)
    *after, health = result.y[:, -1]
    return np.array(after), health / days


@pytest.mark.parametrize("seed", range(12))
def test_a_block_follows_the_equations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    patient, body = admit(rng)
    body = body._replace(immune=rng.random(), drug=rng.random())
    dose = rng.random()
    after, health = flow(patient, body, dose)
    ref, ref_health = by_scipy(patient, body, dose, 2.0)
    assert np.array(after) == pytest.approx(ref, abs=1e-8)
    assert health == pytest.approx(ref_health, abs=1e-4)  # a trapezoidal rule, with a kink at death


def test_the_drug_follows_its_closed_form() -> None:
    patient, body = admit(np.random.default_rng(0))
    after, _ = flow(patient, body, 1.0)
    assert after.drug == pytest.approx((1 - np.exp(-2 * patient.d2)) / patient.d2, abs=1e-8)


PUBLISHED = (
    0.2, 0.3, 0.1, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 0.2, 1.0, 1.5, 1.0, 0.33, 0.01, 0.3
)  # fmt: skip


def test_the_published_constants() -> None:
    assert Patient() == PUBLISHED
    assert Body() == (0.9, 0.2, 0.005, 0.0)


def test_left_alone_the_published_patient_dies_on_day_23() -> None:
    (_, before, *_), _ = by_scipy(Patient(), Body(), 0.0, 22.0)
    (_, after, *_), _ = by_scipy(Patient(), Body(), 0.0, 23.5)
    assert before < LETHAL < after
    (normal, tumor_size, *_), _ = by_scipy(Patient(), Body(), 0.0, 2_000.0)
    assert tumor_size == pytest.approx(0.56, abs=0.01)
    assert normal == pytest.approx(1 - tumor_size, abs=1e-6)


def test_patients_differ_as_stated_and_by_no_more() -> None:
    rng = np.random.default_rng(0)
    people = [admit(rng) for _ in range(4_000)]
    constants = np.array([patient for patient, _ in people]) / PUBLISHED
    starts = np.array([body[:3] for _, body in people]) / (0.9, 0.2, 0.005)
    for shares, spread in ((constants, 0.1), (starts, 0.3)):
        assert np.abs(shares - 1).max() <= spread
        assert shares.std(axis=0) == pytest.approx(spread / np.sqrt(3), rel=0.05)
        assert np.abs(shares.mean(axis=0) - 1).max() < 5 * spread / np.sqrt(3 * 4_000)
    assert all(body.drug == 0 and not dead(body) for _, body in people)


def test_noise_is_around_what_the_equations_say() -> None:
    rng = np.random.default_rng(1)
    patient, body = admit(rng)
    after, health = flow(patient, body, 0.5)
    outcomes = [treat(patient, body, 0.5, rng) for _ in range(2_000)]
    shares = np.array([outcome for outcome, _ in outcomes]) / np.array(after)
    assert (shares[:, 3] == 1).all()  # the drug is known
    assert np.abs(shares[:, :3] - 1).max() <= 0.1
    assert np.abs(shares.mean(axis=0) - 1).max() < 5 * 0.1 / np.sqrt(3 * 2_000)
    assert {value for _, value in outcomes} == {health}


@pytest.mark.parametrize(
    ("tumor_size", "drug", "state"),
    [
        (0.0, 0.0, 0), (0.0499, 0.14, 0), (0.05, 0.0, 3), (0.0, 0.15, 1), (0.0, 0.45, 2),
        (0.2, 0.0, 12), (0.399, 9.0, 23), (0.4, 0.0, DEATH), (1.0, 1.0, DEATH),
    ],
)  # fmt: skip
def test_the_state_of_a_body(tumor_size: float, drug: float, state: int) -> None:
    assert state_of(Body(tumor=tumor_size, drug=drug)) == state


# The table


def test_the_first_patients_give_a_table_within_the_shipped_one() -> None:
    shipped, reduced = load(), tabulate(1_000)
    assert reduced.admissions.sum() == 1_000
    assert shipped.admissions.sum() == PATIENTS
    # One generator, one patient after the other: the first thousand are among the counted.
    assert (reduced.admissions <= shipped.admissions).all()
    assert (reduced.transitions <= shipped.transitions).all()
    assert (reduced.health <= shipped.health).all()
    # And they are like the rest: each frequency within five and a half standard deviations.
    n = reduced.transitions.sum(axis=2, keepdims=True)
    P = shipped.transitions / np.maximum(shipped.transitions.sum(axis=2, keepdims=True), 1)
    seen = np.broadcast_to(n, P.shape) * P > 5
    gaps = np.abs(reduced.transitions - n * P) / np.sqrt(np.maximum(n * P, 1))
    assert seen.sum() > 200
    assert gaps[seen].max() < 5.5


def test_the_recipe_is_what_it_was() -> None:
    # Counts are whole numbers, so they do not depend on the last bits of an exponential.
    counts = tabulate(200).transitions
    digest = hashlib.blake2b(counts.tobytes(), digest_size=16).hexdigest()
    assert digest == "ac2e819d7d0af91b833c70e93cbc1e8d"


def test_every_dose_was_tried_often_in_every_state() -> None:
    blocks = load().transitions.sum(axis=2)
    assert blocks[:DEATH].min() > 1_000
    assert blocks[DEATH].sum() == 0  # the dead are not treated


@pytest.mark.slow
def test_the_shipped_table_is_what_its_recipe_gives() -> None:
    shipped, again = load(), tabulate()
    assert (again.admissions == shipped.admissions).all()
    assert (again.transitions == shipped.transitions).all()
    assert again.health == pytest.approx(shipped.health, rel=1e-12)


# The problem


def test_the_sizes_and_the_doctors_terms(cmdp: ss.CMDP) -> None:
    assert (cmdp.S, cmdp.A, cmdp.H, cmdp.m) == (25, 5, 14, 1)
    assert cmdp.senses == ("<=",)
    assert cmdp.limits == pytest.approx([6.0])
    assert cmdp.constraints[0, 0, 0].tolist() == list(DOSES)


def test_the_optimum_and_its_price(cmdp: ss.CMDP) -> None:
    best = ss.solve(cmdp)
    assert best.value == pytest.approx(7.7525293, abs=1e-6)
    assert best.constraints == pytest.approx([6.0], abs=1e-7)
    assert best.multipliers == pytest.approx([0.3762439], abs=1e-6)
    assert dosing.death_risk(cmdp, best.policy) == pytest.approx(0.206, abs=1e-3)


def test_the_limit_binds() -> None:
    best = ss.solve(ss.problems.make("dosing", tolerance=14.0).cmdp)
    assert best.value == pytest.approx(8.1889850, abs=1e-6)
    assert best.constraints[0] > 10.0


def test_a_safe_policy_has_room(cmdp: ss.CMDP) -> None:
    safest = ss.slater(cmdp)
    assert safest.margin == pytest.approx(1.8590862, abs=1e-6)
    assert safest.rho == pytest.approx(2.7293830, abs=1e-5)


def test_never_treating_loses_the_patient(cmdp: ss.CMDP) -> None:
    never, best = always(0), ss.solve(cmdp)
    assert dosing.death_risk(cmdp, never) > 0.6
    assert dosing.death_risk(cmdp, never) > 3 * dosing.death_risk(cmdp, best.policy)
    assert ss.evaluate(cmdp, never).value < 0.65 * best.value


def test_death_is_for_good_and_does_not_look_safe(cmdp: ss.CMDP) -> None:
    assert (cmdp.transitions[0][DEATH, :, DEATH] == 1).all()
    assert (cmdp.rewards[:, DEATH] == 0).all()
    assert (cmdp.constraints[0, :, DEATH] == 1).all()
    assert (cmdp.model.payoffs[1].reshape(-1, STATES, 5)[:, DEATH] == 0).all()  # g = 0 inside
    # So saving doses by letting patients die does not pay: the cheapest course treats.
    cheapest = cmdp.limits[0] - ss.slater(cmdp).margin
    assert ss.evaluate(cmdp, always(0)).constraints[0] > cheapest + 0.3


def test_death_risk_is_how_often_played_episodes_end_in_death(cmdp: ss.CMDP) -> None:
    problem, streams, policy = ss.problems.make("dosing"), ss.streams(0), always(1)
    ends = [ss.play(problem, policy, streams, t).states[-1] == DEATH for t in range(1, 501)]
    risk = dosing.death_risk(cmdp, policy)
    assert abs(np.mean(ends) - risk) < 5 * np.sqrt(risk * (1 - risk) / 500)


def test_options() -> None:
    drift = ss.signals.Drift([5.0], first=10, last=20)
    problem = ss.problems.make(
        "dosing", horizon=7, tolerance=4.5, biomarkers=ss.signals.Bernoulli(), drift=drift
    )
    assert (problem.cmdp.H, problem.cmdp.limits[0]) == (7, pytest.approx(4.5))
    assert problem.signals.thresholds == ss.signals.Bernoulli()
    assert problem.alpha(30).sum() == pytest.approx(7 - 5.0)  # inside, alpha = H - tolerance
    assert ss.problems.make("dosing", horizon=7).cmdp.limits == pytest.approx([3.0])
    assert problem.signals.constraints == ss.signals.Deterministic()  # the dose is known


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"horizon": 0}, ss.errors.InvalidOption, "horizon must be at least 1"),
        ({"tolerance": -1.0}, ss.errors.InvalidModel, "threshold"),
        ({"tolerance": 14.5}, ss.errors.InvalidModel, "threshold"),
        ({"tolerance": "much"}, ss.errors.InvalidModel, "threshold"),
        ({"biomarkers": "noisy"}, ss.errors.InvalidModel, "law of thresholds"),
        ({"drift": 3}, ss.errors.InvalidModel, "drift must be"),
    ],
)
def test_wrong_options_are_refused(options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        ss.problems.make("dosing", **options)


# Patients against the table


def test_a_course_ends_with_death_or_the_last_block() -> None:
    rng = np.random.default_rng(2)
    courses = [list(course(lambda step, state: 0, 14, rng)) for _ in range(200)]
    for blocks in courses:
        assert len(blocks) == 14 or blocks[-1].after == DEATH
        assert all(block.after != DEATH for block in blocks[:-1])
        assert all(one.after == two.state for one, two in pairwise(blocks))
    lost = np.mean([blocks[-1].after == DEATH for blocks in courses])
    assert 0.35 < lost < 0.65


def test_actual_patients_fare_as_the_page_says(cmdp: ss.CMDP) -> None:
    # The table is not quite Markov: docs/dosing.md states these, and by how much the table is off.
    for policy, expected in (
        (ss.solve(cmdp).policy, (6.34, 7.43, 0.35)),
        (always(0), (4.37, 5.00, 0.51)),
        (always(4), (6.94, 14.0, 0.23)),
    ):
        outcomes = rehearse(policy, 400, seed=11)
        error = outcomes.std(axis=0) / np.sqrt(400)
        assert (np.abs(outcomes.mean(axis=0) - expected) < 5 * error + 0.01).all()
