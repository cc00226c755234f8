import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bnmodes.learning.targets import HLGauss, categorical_projection, cross_entropy, q_lambda

pytestmark = pytest.mark.numeric

SUPPORT = np.linspace(-10, 10, 51)


def brute_force(probabilities, reward, terminated, gamma):
    """One atom of one row at a time, with the neighbours found by rounding down and up."""
    spacing = SUPPORT[1] - SUPPORT[0]
    target = np.zeros_like(probabilities)
    for row in range(len(probabilities)):
        for atom in range(51):
            moved = reward[row] + (0.0 if terminated[row] else gamma * SUPPORT[atom])
            place = (min(max(moved, -10.0), 10.0) + 10.0) / spacing
            low, high = math.floor(place), math.ceil(place)
            if low == high:
                target[row, low] += probabilities[row, atom]
            else:
                target[row, low] += probabilities[row, atom] * (high - place)
                target[row, high] += probabilities[row, atom] * (place - low)
    return target


@given(
    weights=arrays(np.float64, (4, 51), elements=st.floats(0.001, 1)),
    reward=arrays(np.float64, 4, elements=st.floats(-30, 30)),
    terminated=arrays(np.bool_, 4),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
)
def test_the_categorical_projection_is_the_brute_force_one(weights, reward, terminated, gamma):
    probabilities = weights / weights.sum(1, keepdims=True)
    target = categorical_projection(
        torch.from_numpy(probabilities),
        torch.from_numpy(reward),
        torch.from_numpy(terminated),
        torch.from_numpy(SUPPORT),
        gamma,
    )
    expected = brute_force(probabilities, reward, terminated, gamma)
    np.testing.assert_allclose(target.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(target.sum(1).numpy(), 1.0, atol=1e-6)


def test_the_projection_keeps_the_mean_inside_the_support():
    torch.manual_seed(0)
    support = torch.linspace(-10, 10, 51)
    probabilities = (torch.randn(16, 51) * 2).softmax(-1)
    reward = torch.rand(16) - 0.5
    going_on = torch.zeros(16, dtype=torch.bool)
    target = categorical_projection(probabilities, reward, going_on, support, 0.9)
    torch.testing.assert_close(target @ support, reward + 0.9 * (probabilities @ support))


def test_the_projection_is_as_exact_in_float32():
    torch.manual_seed(0)
    probabilities = (torch.randn(64, 51) * 2).softmax(-1)
    reward, terminated = torch.randint(-1, 2, (64,)).float(), torch.rand(64) < 0.3
    support = torch.linspace(-10, 10, 51)
    target = categorical_projection(probabilities, reward, terminated, support, 0.99)
    expected = brute_force(probabilities.double().numpy(), reward.numpy(), terminated.numpy(), 0.99)
    np.testing.assert_allclose(target.numpy(), expected, atol=2e-5)


def test_cross_entropy_is_exact_where_a_clamped_one_is_flat():
    """With the target on an atom of probability 1e-20 the gradient must still point there."""
    target = torch.nn.functional.one_hot(torch.tensor([0]), 51).float()
    logits = torch.zeros(1, 51)
    logits[0, 0] = -46.0
    logits.requires_grad_()
    loss = cross_entropy(target, logits)
    torch.testing.assert_close(loss, torch.tensor([46.0 + math.log(50)]))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    torch.testing.assert_close(gradient[0, 0], torch.tensor(-1.0))


def weighted_n_step_returns(reward, next_value, terminated, cut, gamma, lam):
    """Q(λ) by its other definition: each step's n-step returns, weighted (1 − λ)λ^(n − 1).

    The longest one, which ends where the game or the rollout does, has the weight that is left.
    """
    steps, environments = reward.shape
    result = np.zeros((steps, environments))
    for env in range(environments):
        for start in range(steps):
            rewards, left = 0.0, 1.0
            for step in range(start, steps):
                n = step - start + 1
                rewards += gamma ** (n - 1) * reward[step, env]
                bootstrap = 0.0 if terminated[step, env] else gamma**n * next_value[step, env]
                last = terminated[step, env] or cut[step, env] or step == steps - 1
                weight = left if last else left * (1 - lam)
                result[start, env] += weight * (rewards + bootstrap)
                left -= weight
                if last:
                    break
    return result


@st.composite
def rollouts(draw):
    """Terminations with and without the end of the game, truncations without a termination."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 3)))
    numbers = arrays(np.float64, shape, elements=st.floats(-10, 10))
    flags = arrays(np.bool_, shape, elements=st.sampled_from([False, False, True]))
    return draw(numbers), draw(numbers), draw(flags), draw(flags)


def q_lambda_of(rollout, gamma, lam):
    return q_lambda(*map(torch.from_numpy, rollout), gamma, lam).numpy()


@given(rollouts(), st.sampled_from([0.0, 0.5, 0.99, 1.0]), st.sampled_from([0.0, 0.3, 0.65, 1.0]))
def test_q_lambda_is_the_weighted_sum_of_n_step_returns(rollout, gamma, lam):
    expected = weighted_n_step_returns(*rollout, gamma, lam)
    np.testing.assert_allclose(q_lambda_of(rollout, gamma, lam), expected, atol=1e-9)


@given(rollouts())
def test_q_lambda_without_lambda_is_the_one_step_target(rollout):
    reward, next_value, terminated, _ = rollout
    expected = reward + 0.9 * np.where(terminated, 0.0, next_value)
    np.testing.assert_allclose(q_lambda_of(rollout, 0.9, 0.0), expected, atol=1e-12)


def test_q_lambda_with_lambda_one_is_monte_carlo_with_a_bootstrap_at_each_end():
    reward = np.array([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0], [8.0, 8.0]])
    next_value = np.full((4, 2), 100.0)
    nowhere, after_step_1 = np.zeros((4, 2), dtype=bool), np.zeros((4, 2), dtype=bool)
    after_step_1[1] = [True, False]
    tail = 8 + 0.5 * 100
    whole = [1 + 0.5 * (2 + 0.5 * (4 + 0.5 * tail)), 2 + 0.5 * (4 + 0.5 * tail)]
    for terminated, cut, end in [
        (after_step_1, nowhere, 2.0),  # a lost life
        (after_step_1, after_step_1, 2.0),  # a lost game
        (nowhere, after_step_1, 2 + 0.5 * 100),  # a truncated game
    ]:
        returns = q_lambda_of((reward, next_value, terminated, cut), 0.5, 1.0)
        expected = [[1 + 0.5 * end, whole[0]], [end, whole[1]], [4 + 0.5 * tail] * 2, [tail] * 2]
        np.testing.assert_allclose(returns, expected)


def parts_in_returns(terminated_at, cut_at):
    """How much of each step's reward and next value (columns) is in each return (rows).

    Environment s sees a one at step s only, and γ = λ = 1/2.
    """
    zero, one = torch.zeros(4, 4), torch.eye(4)
    terminated, cut = torch.zeros(2, 4, 4, dtype=torch.bool)
    terminated[terminated_at], cut[cut_at] = True, True
    of_reward = q_lambda(one, zero, terminated, cut, 0.5, 0.5)
    of_value = q_lambda(zero, one, terminated, cut, 0.5, 0.5)
    return of_reward.tolist(), of_value.tolist()


def test_q_lambda_takes_every_number_from_its_own_step():
    """Shifting the reward, the value, a flag or the last step by one changes one of these tables.

    All numbers are powers of two, so the comparison is exact.
    """
    of_reward, of_value = parts_in_returns(terminated_at=[], cut_at=[])
    assert of_reward == [
        [1, 1 / 4, 1 / 16, 1 / 64],
        [0, 1, 1 / 4, 1 / 16],
        [0, 0, 1, 1 / 4],
        [0, 0, 0, 1],
    ]
    assert of_value == [
        [1 / 4, 1 / 16, 1 / 64, 1 / 128],
        [0, 1 / 4, 1 / 16, 1 / 32],
        [0, 0, 1 / 4, 1 / 8],
        [0, 0, 0, 1 / 2],
    ]
    ended = [[1, 1 / 4, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1 / 4], [0, 0, 0, 1]]
    of_reward, of_value = parts_in_returns(terminated_at=[1], cut_at=[])
    assert of_reward == ended
    assert of_value == [[1 / 4, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1 / 4, 1 / 8], [0, 0, 0, 1 / 2]]
    of_reward, of_value = parts_in_returns(terminated_at=[], cut_at=[1])
    assert of_reward == ended
    assert of_value == [
        [1 / 4, 1 / 8, 0, 0],
        [0, 1 / 2, 0, 0],
        [0, 0, 1 / 4, 1 / 8],
        [0, 0, 0, 1 / 2],
    ]


def integrated_histogram(target, bins, low, high, sigma_widths):
    """Midpoint rule on the normal density: no distribution function, one bin at a time."""
    width, pieces = (high - low) / bins, 64
    sigma, target = sigma_widths * width, min(max(target, low), high)
    mass = []
    for k in range(bins):
        points = [low + width * (k + (piece + 0.5) / pieces) for piece in range(pieces)]
        mass.append(sum(math.exp(-0.5 * ((point - target) / sigma) ** 2) for point in points))
    return np.array(mass) / sum(mass)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("coding", [HLGauss(), HLGauss(20, -1.0, 3.0, 1.5)])
def test_hl_gauss_encodes_the_normal_mass_of_each_bin(coding, dtype):
    targets = torch.linspace(coding.low, coding.high, 23, dtype=dtype)
    histogram = coding.encode(targets)
    assert histogram.dtype == dtype
    settings = coding.bins, coding.low, coding.high, coding.sigma_widths
    expected = np.stack([integrated_histogram(target, *settings) for target in targets.tolist()])
    np.testing.assert_allclose(histogram.numpy(), expected, atol=2e-5)


def test_hl_gauss_keeps_its_digits_in_both_tails_in_float32():
    """Mirrored targets have mirrored histograms, also where the mass is far below 1e-7."""
    coding = HLGauss()
    histogram = coding.encode(torch.tensor([2.0, 8.0]))  # mirrored at 5, the middle
    assert (histogram[0] > 0).sum() > 20
    exact = coding.encode(torch.tensor([2.0, 8.0], dtype=torch.float64)).float()
    torch.testing.assert_close(histogram[0], histogram[1].flip(0), rtol=1e-3, atol=1e-20)
    torch.testing.assert_close(histogram, exact, rtol=1e-3, atol=1e-20)


@given(arrays(np.float32, (2, 3), elements=st.floats(-1000, 1000, width=32)))
def test_hl_gauss_gives_a_distribution_of_the_clipped_target(targets):
    coding = HLGauss()
    histogram = coding.encode(torch.from_numpy(targets))
    assert histogram.shape == (2, 3, 51)
    assert (histogram >= 0).all()
    np.testing.assert_allclose(histogram.sum(-1).numpy(), 1.0, atol=1e-6)
    clipped = coding.encode(torch.from_numpy(np.clip(targets, -10, 20)))
    assert torch.equal(histogram, clipped)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hl_gauss_decodes_interior_targets_to_themselves(dtype):
    coding = HLGauss()
    targets = torch.linspace(-8.4, 18.4, 2681, dtype=dtype)
    torch.testing.assert_close(coding.decode(coding.encode(targets)), targets, rtol=0, atol=1e-3)


def test_hl_gauss_decodes_the_ends_of_its_support_inwards():
    coding = HLGauss()
    decoded = coding.decode(coding.encode(torch.tensor([20.0, -10.0, 1e6, -1e6])))
    expected = torch.tensor([19.594, -9.594, 19.594, -9.594])
    torch.testing.assert_close(decoded, expected, rtol=0, atol=5e-4)
