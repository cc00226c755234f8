import numpy as np
import pytest
import torch

from bnmodes.learning.relaxed_actions import (
    gaussian_noise,
    gumbel_noise,
    gumbel_softmax,
    noisy_action,
    one_hot,
)

pytestmark = pytest.mark.numeric

LOGITS = torch.tensor([0.0, 1.0, -1.0, 2.0])


def gumbel(*shape, seed=0):
    return gumbel_noise(shape, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("temperature", [0.5, 10.0])
def test_the_argmax_of_relaxed_actions_is_a_sample_of_the_softmax(temperature):
    relaxed = gumbel_softmax(LOGITS.expand(40_000, 4), temperature, gumbel(40_000, 4))
    torch.testing.assert_close(relaxed.sum(-1), torch.ones(40_000))
    share = np.bincount(relaxed.argmax(-1).numpy(), minlength=4) / 40_000
    np.testing.assert_allclose(share, LOGITS.softmax(-1).numpy(), atol=0.01)


def test_the_noise_is_gumbels():
    """With temperature 1 the log-odds of two equal logits are the difference of two Gumbel
    variables, which is logistic: deviation π/√3, and P(< 1) = 1/(1 + e⁻¹)."""
    relaxed = gumbel_softmax(torch.zeros(40_000, 2), 1.0, gumbel(40_000, 2))
    difference = relaxed[:, 0].log() - relaxed[:, 1].log()
    assert difference.std().item() == pytest.approx(np.pi / np.sqrt(3), abs=0.03)
    assert (difference < 1).float().mean().item() == pytest.approx(1 / (1 + np.exp(-1)), abs=0.01)


def test_a_high_temperature_is_near_uniform_and_a_low_one_near_a_corner():
    logits, noise = LOGITS.expand(100, 4), gumbel(100, 4)
    assert (gumbel_softmax(logits, 1000.0, noise) - 0.25).abs().max() < 0.01
    assert (gumbel_softmax(logits, 1e-3, noise).amax(-1) > 0.99).all()


def test_the_gradient_is_the_softmaxs_at_the_noisy_logits():
    """Finite differences with the same noise."""
    weights = torch.tensor([0.3, -1.0, 2.0, 0.7], dtype=torch.float64)
    logits = LOGITS.double().expand(3, 4).clone().requires_grad_()

    noise = gumbel(3, 4, seed=5).double()

    def value(logits):
        return (gumbel_softmax(logits, 2.0, noise) @ weights).sum()

    assert torch.autograd.gradcheck(value, (logits,))
    value(logits).backward()
    assert logits.grad.abs().max() > 1e-3


def test_noise_is_gaussian_clipped_and_decides_near_ties_only():
    relaxed = torch.tensor([0.5, 0.3]).expand(20_000, 2)
    noise = gaussian_noise((20_000, 2), torch.Generator().manual_seed(0))
    changed = (noisy_action(relaxed, noise, 0.1) == 1).float().mean().item()
    # The difference of two noises has deviation 0.1·√2: P(it exceeds 0.2) = P(z > √2).
    assert changed == pytest.approx(0.0786, abs=0.008)
    assert (noisy_action(relaxed, noise, 10.0, clip=0.09) == 0).all()
    assert (noisy_action(relaxed, noise, 10.0, clip=0.11) == 1).any()
    assert (noisy_action(relaxed, noise, 0.0) == 0).all()


def test_one_hot_rows():
    assert one_hot(torch.tensor([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
