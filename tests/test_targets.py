import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bnmodes.targets import categorical_projection, cross_entropy

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
