"""SPOT by hand: the first episodes of tiny problems, every number written out.

`near(shown, exact)` checks a number that a reader can follow on paper (six digits) and hands
on the exact one. Steps are h = 1, 2 here, as on paper; states and actions are 0-based.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import safespot as ss
from safespot.reference import ReferenceSpot

# Each subject: a learner class, and how to hand it one episode
# (states [H+1], actions [H], rewards [H], constraints [H,m], thresholds [H,m]).
Subject = tuple[Callable[..., Any], Callable[..., None]]
SUBJECTS: dict[str, Subject] = {
    "reference": (ReferenceSpot, lambda learner, *episode: learner.observe(*episode)),
    "spot": (ss.Spot, lambda learner, *episode: learner.observe(ss.Episode(*episode))),
}


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]


def near(shown: float, exact: float) -> Any:
    assert exact == pytest.approx(shown, abs=6e-7)
    return exact


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12)


def arrays(
    states: Any, actions: Any, rewards: Any, constraints: Any, thresholds: Any
) -> tuple[NDArray, ...]:
    return (
        np.array(states, np.int64),
        np.array(actions, np.int64),
        np.array(rewards, float),
        np.array(constraints, float),
        np.array(thresholds, float),
    )


def softmax2(difference: float) -> list[float]:
    """Two actions whose logits differ by `difference` (the first minus the second)."""
    first = 1 / (1 + math.exp(-difference))
    return [first, 1 - first]


def test_three_episodes_worked_out_by_hand(subject: Subject) -> None:
    make, observe = subject
    learner = make(
        2, 2, 2, 1, start=0, episodes=4, rho=2.0, delta=0.05,
        bonus_scale=0.1, threshold_scale=0.1, policy_step=1.0, dual_step=2.0,
    )  # fmt: skip
    uniform = np.full((2, 2, 2), 0.5)

    # Constants. S A H m T / delta = 2*2*2*1*4 / 0.05 = 640, and with m = 1, L_r = L_p = ln 640.
    L = near(6.461468, math.log(640))
    phi1 = near(0.835966, 0.1 * (math.sqrt(L) + 2 * math.sqrt(2 + L)))  # 0.1 (2.541942 + 5.817721)
    phi2 = near(0.591117, phi1 / math.sqrt(2))
    zeta1 = near(0.508388, 0.1 * math.sqrt(4 * L))
    zeta2 = near(0.359485, zeta1 / math.sqrt(2))

    # ---- t = 1. No data: the threshold of either step lies in [0, 1], their sum in [0, 2].
    assert learner.episode == 1
    same(learner.policy, uniform)
    same(learner.multipliers, [0])
    same(learner.threshold_bounds, [[0], [2]])
    same(learner.thresholds, [2])  # pessimistic: the upper one

    # Every pair is unvisited, so Q_r = Q_g = 2 at h = 1 and 1 at h = 2: all actions are alike, and
    # V_g(start) = 2. lambda_2 = 0 + 2 (2 - 2) = 0.
    observe(learner, *arrays([0, 1, 0], [0, 1], [0.0, 0.1], [[0], [0]], [[0.45], [0.9]]))

    # ---- t = 2, from episode 1: (0,0) -> 1 at h = 1, (1,1) at h = 2, once each.
    assert learner.episode == 2
    same(learner.policy, uniform)
    same(learner.multipliers, [0])
    lower = near(0.391612, max(0.45 - zeta1, 0) + (0.9 - zeta1))  # 0 (clipped) + 0.391612
    upper = near(1.958388, (0.45 + zeta1) + min(0.9 + zeta1, 1))  # 0.958388 + 1 (clipped)
    same(learner.threshold_bounds, [[lower], [upper]])
    same(learner.thresholds, [upper])

    # The update at t = 2, with pi_2 uniform and lambda_2 = 0. A pair not named is at its cap.
    # h = 2, cap 1, state 1:
    r_11 = near(0.935966, 0.1 + phi1)  # Q_r(1,1), below 1
    g_11 = phi1  # Q_g(1,1) = 0 + 0.835966
    Vr2 = near(0.967983, (1 + r_11) / 2)  # V_r(1); action 0 is at 1
    Vg2 = near(0.917983, (1 + g_11) / 2)  # V_g(1)
    # h = 1, cap 2, state 0; (0,0) has led to state 1:
    r_00 = near(1.803949, 0 + phi1 + Vr2)  # Q_r(0,0)
    g_00 = near(1.753949, 0 + phi1 + Vg2)  # Q_g(0,0)
    Vg = near(1.876975, (g_00 + 2) / 2)  # V_g(start); action 1 is at 2
    # eta = 1 and lambda_2 = 0, so the logits grow by Q_r:
    d1_s0 = near(-0.196051, r_00 - 2)  # h = 1, state 0: action 0 against action 1
    d2_s1 = near(0.064034, 1 - r_11)  # h = 2, state 1
    lam3 = near(0.162827, 2 * (upper - Vg))  # 0 + 2 (1.958388 - 1.876975)
    observe(learner, *arrays([0, 0, 1], [0, 1], [0.4, 0.6], [[0.2], [0]], [[0.25], [0.5]]))

    # ---- t = 3: pi_3 and lambda_3 come from episode 1 alone, the thresholds from episodes 1 and 2.
    assert learner.episode == 3
    expected = uniform.copy()
    expected[0, 0] = softmax2(d1_s0)
    expected[1, 1] = softmax2(d2_s1)
    p1 = near(0.451144, expected[0, 0, 0])
    p2 = near(0.516003, expected[1, 1, 0])
    same(learner.policy, expected)
    same(learner.multipliers, [lam3])
    # h = 1: (0,0) twice, mean (0.45 + 0.25)/2 = 0.35. h = 2: (1,1) in episode 1 and (0,1) in
    # episode 2, once each; the lowest s*A + a is (0,1), so the mean is 0.5 and n = 1.
    lower = near(0.0, max(0.35 - zeta2, 0) + max(0.5 - zeta1, 0))  # both clipped
    upper = near(1.709485, (0.35 + zeta2) + min(0.5 + zeta1, 1))  # 0.709485 + 1
    same(learner.threshold_bounds, [[lower], [upper]])
    same(learner.thresholds, [upper])

    # The update at t = 3, with pi_3 and lambda_3.
    # h = 2, cap 1: state 1 as before but under pi_3; state 0 has a first visit of action 1.
    r_01 = near(1.0, min(0.6 + phi1, 1))  # Q_r(0,1): 1.435966, capped
    g_01 = phi1  # Q_g(0,1) = 0 + 0.835966
    Vr2 = [near(1.0, (1 + r_01) / 2), near(0.969008, p2 + (1 - p2) * r_11)]  # states 0, 1
    Vg2 = [near(0.917983, (1 + g_01) / 2), near(0.920608, p2 + (1 - p2) * g_11)]
    # h = 1, cap 2: (0,0) has n = 2, r_hat = (0 + 0.4)/2, g_hat = (0 + 0.2)/2, p_hat = (1/2, 1/2).
    r_00 = near(1.775621, 0.2 + phi2 + (Vr2[0] + Vr2[1]) / 2)
    g_00 = near(1.610413, 0.1 + phi2 + (Vg2[0] + Vg2[1]) / 2)
    Vg = near(1.824240, p1 * g_00 + (1 - p1) * 2)  # V_g(start)
    # Q = Q_r + lambda_3 Q_g; the logits grow by it (on top of what they were):
    d1_s0 += near(-0.287814, (r_00 + lam3 * g_00) - (2 + lam3 * 2))
    d2_s0 = near(0.026709, (1 + lam3 * 1) - (r_01 + lam3 * g_01))
    d2_s1 += near(0.090743, (1 + lam3 * 1) - (r_11 + lam3 * g_11))
    # lambda_3 + 2 (1.709485 - 1.824240) = 0.162827 - 0.229510 < 0, so lambda_4 = 0.
    assert near(-0.066683, lam3 + 2 * (upper - Vg)) < 0
    observe(learner, *arrays([0, 1, 1], [1, 0], [1.0, 1.0], [[1], [1]], [[0.75], [0.25]]))

    # ---- t = 4
    assert learner.episode == 4
    expected = uniform.copy()
    expected[0, 0] = softmax2(near(-0.483865, d1_s0))
    expected[1, 0] = softmax2(d2_s0)
    expected[1, 1] = softmax2(near(0.154777, d2_s1))
    near(0.381340, expected[0, 0, 0])
    near(0.506677, expected[1, 0, 0])
    near(0.538617, expected[1, 1, 0])
    same(learner.policy, expected)
    same(learner.multipliers, [0])
    # h = 1: (0,0) still leads with n = 2. h = 2: (0,1), (1,0), (1,1) once each, so (0,1) again.
    same(learner.threshold_bounds, [[lower], [upper]])


def test_default_steps_two_constraints_and_a_mixed_stance(subject: Subject) -> None:
    make, observe = subject
    learner = make(
        1, 2, 2, 2, episodes=8, slack=2.0, stance=0.25, delta=0.1,
        bonus_scale=0.1, threshold_scale=0.05,
    )  # fmt: skip
    # rho = 2 H / slack = 2 (D4). S A H m T / delta = 1*2*2*2*8 / 0.1 = 640; without m, 320.
    L_r, L_p = near(6.461468, math.log(640)), near(5.768321, math.log(320))
    phi = near(0.774514, 0.1 * (math.sqrt(L_r) + 2 * math.sqrt(1 + L_p)))
    zeta = near(0.254194, 0.05 * math.sqrt(4 * L_r))
    # eta = sqrt(2 ln 2 / (2^2 (1 + 2*2)^2 8)) = sqrt(2 ln 2 / 800); step = 2 / sqrt(2 * 2^2 * 8).
    eta, step = near(0.041628, math.sqrt(2 * math.log(2) / 800)), 0.25

    same(learner.thresholds, [1.5, 1.5])  # 0.25 * 0 + 0.75 * 2
    # t = 1: V_g = 2 for both, 0 + 0.25 (1.5 - 2) < 0, so lambda_2 = 0.
    episode = arrays([0, 0, 0], [0, 0], [0, 0], [[0, 0.1], [0, 0.1]], [[0.95, 0.6], [0.95, 0.6]])
    observe(learner, *episode)
    same(learner.multipliers, [0, 0])

    # t = 2, the same at either step: 0.95 -> [0.695806, 1 (clipped)], 0.6 -> [0.345806, 0.854194].
    lower = [near(1.391612, 2 * (0.95 - zeta)), near(0.691612, 2 * (0.6 - zeta))]
    upper = [2.0, near(1.708388, 2 * (0.6 + zeta))]
    alpha = [
        near(1.847903, 0.25 * lower[0] + 0.75 * upper[0]),
        near(1.454194, 0.25 * lower[1] + 0.75 * upper[1]),
    ]
    same(learner.threshold_bounds, [lower, upper])
    same(learner.thresholds, alpha)
    # h = 2: Q_r = Q_g0 = 0.774514, Q_g1 = 0.874514 for action 0 and 1 for action 1.
    Q2 = phi
    Q1 = near(1.661771, phi + (Q2 + 1) / 2)  # h = 1: reward and constraint 0
    G1 = near(1.811771, 0.1 + phi + (0.1 + phi + 1) / 2)  # h = 1: constraint 1
    lam = [near(0.004254, step * (alpha[0] - (Q1 + 2) / 2)), 0]  # 0.25 (1.847903 - 1.830886)
    assert near(1.905886, (G1 + 2) / 2) > alpha[1]  # so the other stays at 0
    observe(learner, *episode)
    same(learner.multipliers, lam)
    same(learner.policy, [[softmax2(eta * (Q1 - 2))], [softmax2(eta * (Q2 - 1))]])


def test_default_dual_step_and_the_ceiling_rho(subject: Subject) -> None:
    make, observe = subject
    options: dict[str, Any] = {
        "episodes": 4,
        "delta": 0.05,
        "bonus_scale": 0.1,
        "policy_step": 1.0,
        "thresholds": [1.0],
    }
    # H = 1, S = 1, A = 2, m = 1: L_r = L_p = ln(1*2*1*1*4 / 0.05) = ln 160.
    L = near(5.075174, math.log(160))
    phi = near(0.471760, 0.1 * (math.sqrt(L) + math.sqrt(1 + L)))
    episode = arrays([0, 0], [0], [0], [[0]], [[0.3]])
    # t = 2: V_g = (0.471760 + 1)/2 = 0.735880 and the known threshold is 1.
    growth = near(0.264120, 1 - (phi + 1) / 2)
    for rho, dual_step, expected in [
        (3.0, None, 3 / math.sqrt(1 * 1 * 4) * growth),  # step = 3/2
        (0.2, 1.0, 0.2),  # clipped to rho
        (math.inf, 10.0, 10 * growth),  # never clipped
    ]:
        learner = make(1, 2, 1, 1, rho=rho, dual_step=dual_step, **options)
        same(learner.thresholds, [1])
        same(learner.threshold_bounds, [[1], [1]])
        observe(learner, *episode)
        same(learner.multipliers, [0])
        observe(learner, *episode)
        same(learner.multipliers, [expected])
        same(learner.policy, [[softmax2(phi - 1)]])


def test_learned_start_distribution(subject: Subject) -> None:
    make, observe = subject
    learner = make(
        2, 2, 1, 1, start=None, episodes=4, rho=9.0, delta=0.05, thresholds=[[1.0]],
        bonus_scale=0.05, policy_step=1.0, dual_step=1.0,
    )  # fmt: skip
    # S A H T / delta = 2*2*1*4 / 0.05 = 320.
    L = near(5.768321, math.log(320))
    phi1 = near(0.259445, 0.05 * (math.sqrt(L) + math.sqrt(2 + L)))
    start1 = near(0.139359, 0.05 * math.sqrt(2 + L))  # phi_0 at t = 2
    start2 = near(0.098541, start1 / math.sqrt(2))  # phi_0 at t = 3
    # t = 1: V_g(start) = H = 1. t = 2: mu = (1, 0), V_1(0) = (0.259445 + 1)/2.
    observe(learner, *arrays([0, 1], [0], [0], [[0]], [[0]]))
    same(learner.multipliers, [0])
    V = near(0.629723, (phi1 + 1) / 2)
    lam = near(0.230919, 1 - (start1 + V))
    observe(learner, *arrays([1, 1], [0], [0], [[0.5]], [[0]]))
    same(learner.multipliers, [lam])
    # t = 3: mu = (1/2, 1/2); in state 0 pi_3 = softmax of (0.259445, 1), in state 1 uniform.
    pi = near(0.322883, softmax2(phi1 - 1)[0])
    V = [near(0.760888, pi * phi1 + 1 - pi), near(0.879723, (0.5 + phi1 + 1) / 2)]
    lam += near(0.081154, 1 - (start2 + (V[0] + V[1]) / 2))
    observe(learner, *arrays([1, 1], [0], [0], [[0.5]], [[0]]))
    same(learner.multipliers, [lam])


def test_learned_start_distribution_over_two_steps(subject: Subject) -> None:
    make, observe = subject
    # H = 2, S = 1, A = 2: S A H T / delta = 1*2*2*4 / 0.05 = 320.
    L = near(5.768321, math.log(320))
    episode = arrays([0, 0, 0], [0, 0], [0, 0], [[0], [0]], [[0], [0]])
    # Known thresholds 0.75 + 1. At t = 2, h = 2: V = (phi + 1)/2; h = 1: V = (phi + V_2 + 2)/2.
    phi = near(0.076049, 0.01 * (math.sqrt(L) + 2 * math.sqrt(1 + L)))
    phi_0 = near(0.052032, 0.01 * 2 * math.sqrt(1 + L))
    V_2 = near(0.538025, (phi + 1) / 2)
    V_1 = near(1.307037, (phi + V_2 + 2) / 2)
    learner = make(
        1, 2, 2, 1, start=None, episodes=4, rho=9.0, delta=0.05, thresholds=[[0.75, 1.0]],
        bonus_scale=0.01, policy_step=1.0, dual_step=1.0,
    )  # fmt: skip
    same(learner.thresholds, [1.75])
    observe(learner, *episode)
    observe(learner, *episode)
    same(learner.multipliers, [near(0.390931, 1.75 - (phi_0 + V_1))])


def test_learned_start_value_is_truncated(subject: Subject) -> None:
    make, observe = subject
    learner = make(
        1, 2, 1, 1, start=None, episodes=4, rho=9.0, delta=0.05, thresholds=[0.995],
        bonus_scale=0.1, policy_step=1.0, dual_step=1.0,
    )  # fmt: skip
    # S A H T / delta = 1*2*1*4 / 0.05 = 160. Rewards of 1 keep Q_r at its cap and pi uniform.
    L = near(5.075174, math.log(160))
    phi = near(0.471760, 0.1 * (math.sqrt(L) + math.sqrt(1 + L)))
    phi_0 = near(0.246479, 0.1 * math.sqrt(1 + L))
    # t = 1: 0.995 - 1 < 0. t = 2: g_hat = 0.
    observe(learner, *arrays([0, 0], [0], [1], [[0]], [[0]]))
    same(learner.multipliers, [0])
    lam = near(0.012641, 0.995 - (phi_0 + (phi + 1) / 2))
    observe(learner, *arrays([0, 0], [0], [1], [[1]], [[0]]))
    same(learner.multipliers, [lam])
    # t = 3: g_hat = 1/2, n = 2: 0.174287 + (0.5 + 0.333585 + 1)/2 is above H = 1.
    assert near(1.091079, phi_0 / math.sqrt(2) + (0.5 + phi / math.sqrt(2) + 1) / 2) > 1
    observe(learner, *arrays([0, 0], [0], [1], [[1]], [[0]]))
    same(learner.multipliers, [lam + (0.995 - 1)])


def test_mask_of_each_step(subject: Subject) -> None:
    make, _ = subject
    mask = np.array([[[True, True], [True, False]], [[False, True], [True, True]]])
    learner = make(2, 2, 2, 1, action_mask=mask, episodes=4, rho=1.0)
    same(learner.policy, [[[0.5, 0.5], [1, 0]], [[0, 1], [0.5, 0.5]]])


def test_mask_restricts_the_softmax(subject: Subject) -> None:
    make, observe = subject
    mask = [[True, False, True]]
    learner = make(
        1, 3, 1, 1, action_mask=np.array(mask), episodes=4, rho=1.0, delta=0.05, thresholds=[0.0],
        bonus_scale=0.1, policy_step=2.0,
    )  # fmt: skip
    same(learner.policy, [[[0.5, 0, 0.5]]])
    # A stays 3 (D6): S A H T / delta = 1*3*1*4 / 0.05 = 240.
    L = near(5.480639, math.log(240))
    phi = near(0.488679, 0.1 * (math.sqrt(L) + math.sqrt(1 + L)))
    episode = arrays([0, 0], [2], [0.25], [[0]], [[0]])
    observe(learner, *episode)
    same(learner.policy, [[[0.5, 0, 0.5]]])
    observe(learner, *episode)
    first, last = softmax2(2 * (1 - (0.25 + phi)))  # a lead of 2 (1 - 0.738679) = 0.522643
    near(0.627766, first)
    same(learner.policy, [[[first, 0, last]]])


@pytest.mark.parametrize(
    ("estimator", "window", "clip", "expected"),
    [
        # All five: (0,1) and (1,0) have two samples each (D7: not three), the lowest is (0,1).
        ("representative", 1.0, True, (0.3, 2)),
        # floor(0.5 * 5) = 2 episodes: (1,0) without a sample, (1,0) with 0.7.
        ("representative", 0.5, True, (0.7, 1)),
        # floor(0.1 * 5) = 0, so one episode: the last.
        ("representative", 0.1, True, (0.7, 1)),
        # All samples: (0.2 + 0.4 + 0.9 + 0.7) / 4.
        ("pooled", 1.0, True, (0.55, 4)),
        ("pooled", 1.0, False, (0.55, 4)),
        ("representative", 0.1, False, (0.7, 1)),
    ],
)
def test_window_ties_and_missing_samples(
    subject: Subject, estimator: str, window: float, clip: bool, expected: tuple[float, int]
) -> None:
    make, observe = subject
    learner = make(
        2, 2, 1, 1, start=None, episodes=8, rho=1.0, delta=0.1, threshold_scale=0.1,
        estimator=estimator, window=window, clip_thresholds=clip,
    )  # fmt: skip
    visits = [(1, 0, 0.9), (0, 1, 0.2), (0, 1, 0.4), (1, 0, math.nan), (1, 0, 0.7)]
    for state, action, signal in visits:
        observe(learner, *arrays([state, 0], [action], [0], [[0]], [[signal]]))
    # m S A H T / delta = 1*2*2*1*8 / 0.1 = 320.
    mean, n = expected
    zeta = near(0.480347, 0.1 * math.sqrt(4 * math.log(320))) / math.sqrt(n)
    low, high = mean - zeta, mean + zeta
    if clip:
        low, high = max(low, 0), min(high, 1)
    same(learner.threshold_bounds, [[low], [high]])
    same(learner.thresholds, [high])


def test_no_sample_leaves_the_unit_interval(subject: Subject) -> None:
    make, observe = subject
    learner = make(
        1, 2, 2, 1, episodes=8, rho=1.0, threshold_scale=0.0, stance="optimistic",
        clip_thresholds=False,
    )  # fmt: skip
    observe(learner, *arrays([0, 0, 0], [0, 0], [0, 0], [[0], [0]], [[0.4], [math.nan]]))
    same(learner.threshold_bounds, [[0.4], [1.4]])  # [0.4, 0.4] + [0, 1], whatever k
    same(learner.thresholds, [0.4])


def test_the_radius_is_at_most_one_even_unclipped(subject: Subject) -> None:
    make, observe = subject
    learner = make(1, 2, 1, 1, episodes=8, rho=1.0, clip_thresholds=False)
    observe(learner, *arrays([0, 0], [0], [0], [[0]], [[0.25]]))
    # m S A H T / delta = 1*1*2*1*8 / 0.05 = 320, sqrt(4 ln 320) = 4.803466, so zeta = 1.
    same(learner.threshold_bounds, [[-0.75], [1.25]])


def test_bernstein_bonus(subject: Subject) -> None:
    make, observe = subject
    learner = make(
        200, 2, 1, 1, episodes=256, rho=1.0, delta=0.1, thresholds=[0.0], bonus="bernstein",
        bonus_scale=0.02, policy_step=1.0,
    )  # fmt: skip
    # S A H m T / delta = 200*2*1*1*256 / 0.1 = 1 024 000; 10 S^2 A H T / delta = 2 048 000 000.
    L, ell = near(13.839227, math.log(1_024_000)), near(21.440130, math.log(2_048_000_000))
    # Action 0 of state 0 every time, signals 0, successors 0, 1, 0, 1, ...: at t = n + 1, p_hat is
    # ceil(n/2)/n and floor(n/2)/n. Action 1 stays at its cap 1, so its lead grows by 1 - phi(n).
    lead, bernstein_won = 0.0, 0
    for t in range(1, 202):
        observe(learner, *arrays([0, (t - 1) % 2], [0], [0], [[0]], [[0]]))
        n = t - 1
        if n >= 2:  # at n <= 1 the pair sits at its cap
            p = (n // 2) / n
            hoeffding = math.sqrt((200 + L) / n)
            spread = math.sqrt(2 * p * (1 - p) * ell / (n - 1))
            bernstein = 2 * (spread + 7 * ell / (3 * (n - 1)))
            lead += 1 - 0.02 * (math.sqrt(L / n) + min(hoeffding, bernstein))
            bernstein_won += bernstein < hoeffding
        if t in (1, 2, 3, 4):  # 1 - phi(2) = 0.740586 and 1 - phi(3) = 0.788189
            near([0, 0, 0.740586, 1.528775][t - 1], lead)
        same(np.log(learner.policy[0, 0, 1] / learner.policy[0, 0, 0]), lead)
    assert bernstein_won == 44  # from n = 157 to n = 200


def test_bernstein_bonus_with_one_successor(subject: Subject) -> None:
    make, observe = subject
    learner = make(
        2, 2, 2, 1, episodes=256, rho=1.0, delta=0.1, thresholds=[0.0], bonus="bernstein",
        bonus_scale=0.02, policy_step=1.0,
    )  # fmt: skip
    # S A H m T / delta = 2*2*2*1*256 / 0.1 = 20480, and 10 S^2 A H T / delta = 409600.
    L, ell = near(9.927204, math.log(20480)), near(12.922936, math.log(409600))
    # One successor, p_hat = 1: H times 7 ell / (3 (n-1)) = 30.153518 / (n-1), or H times
    # 3.453578 / sqrt(n). Only h = 2 is looked at, where nothing follows and the cap is 1.
    near(30.153518, 7 * ell / 3)
    near(3.453578, math.sqrt(2 + L))
    lead, bernstein_won = 0.0, 0
    for t in range(1, 102):
        observe(learner, *arrays([0, 1, 1], [0, 0], [0, 0], [[0], [0]], [[0], [0]]))
        n = t - 1
        if n >= 2:
            hoeffding, bernstein = math.sqrt((2 + L) / n), 7 * ell / (3 * (n - 1))
            lead += 1 - 0.02 * (math.sqrt(L / n) + 2 * min(hoeffding, bernstein))
            bernstein_won += bernstein < hoeffding
        same(np.log(learner.policy[1, 1, 1] / learner.policy[1, 1, 0]), lead)
    assert bernstein_won == 22  # from n = 79 to n = 100


def test_anytime_epochs(subject: Subject) -> None:
    make, observe = subject
    learner = make(
        1, 2, 1, 1, episodes=None, rho=2.0, delta=0.1, bonus_scale=0.5, threshold_scale=0.5,
        window=0.02,
    )  # fmt: skip
    episode = arrays([0, 0], [0], [0.125], [[0]], [[0.75]])
    for _ in range(1023):
        observe(learner, *episode)
    # t = 1024, the last of epoch 1: T = 1024, delta_1 = 0.1/2, W = floor(0.02 * 1023) = 20.
    assert learner.episode == 1024
    assert learner.policy[0, 0, 0] < 0.45
    assert learner.multipliers[0] > 0
    zeta = near(0.728710, 0.5 * math.sqrt(4 * math.log(2 * 1024 / 0.05) / 20))
    same(learner.threshold_bounds, [[0.75 - zeta], [1]])
    observe(learner, *episode)

    # t = 1025, the first of epoch 2: T_2 = 2048, T = 3072 in the logarithms, delta_2 = 0.1/6.
    assert learner.episode == 1025
    same(learner.policy, [[[0.5, 0.5]]])
    same(learner.multipliers, [0])
    L = near(12.817576, math.log(2 * 3072 * 6 / 0.1))
    zeta = near(0.800549, 0.5 * math.sqrt(4 * L / 20))
    same(learner.threshold_bounds, [[max(0.75 - zeta, 0)], [1]])
    # The counts carry over: n = 1024 for action 0, and action 1 is at its cap.
    phi = near(0.114021, 0.5 * (math.sqrt(L / 1024) + math.sqrt((1 + L) / 1024)))
    eta = near(0.008672, math.sqrt(2 * math.log(2) / (9 * 2048)))
    step = near(0.044194, 2 / math.sqrt(2048))
    observe(learner, *episode)
    same(learner.policy, [[softmax2(eta * (0.125 + phi - 1))]])
    same(learner.multipliers, [step * (1 - (phi + 1) / 2)])  # alpha = 1, lambda_1025 = 0
