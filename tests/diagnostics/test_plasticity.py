"""Dormant units, ranks and motion on layers whose answer is known."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bnmodes.diagnostics.plasticity import (
    dormant_fractions,
    effective_rank,
    last_update,
    layer_motion,
    recent_gradient_norm,
    spectrum,
    srank,
)
from bnmodes.learning.optimizer import Optimizer

pytestmark = pytest.mark.numeric


def test_dormant_is_at_most_the_threshold_times_the_layers_mean_and_pooled_over_units():
    activity = {
        "conv1": torch.tensor([0.0, 0.02, 0.09, 3.89]),  # mean 1
        "dense": torch.tensor([1.0, 1.0]),
    }
    assert dormant_fractions(activity) == pytest.approx(
        {
            "conv1/dormant_0": 1 / 4, "dense/dormant_0": 0.0, "dormant_0": 1 / 6,
            "conv1/dormant_0.025": 2 / 4, "dense/dormant_0.025": 0.0, "dormant_0.025": 2 / 6,
            "conv1/dormant_0.1": 3 / 4, "dense/dormant_0.1": 0.0, "dormant_0.1": 3 / 6,
        }
    )  # fmt: skip


def test_a_silent_layer_is_all_dormant():
    assert dormant_fractions({"dense": torch.zeros(5)})["dormant_0"] == 1.0


@given(rank=st.integers(1, 8), seed=st.integers(0, 1000))
def test_equal_singular_values_of_k_directions_have_rank_k(rank, seed):
    generator = torch.Generator().manual_seed(seed)
    ones = torch.ones(40, 1, dtype=torch.float64)
    noise = torch.randn(40, rank, generator=generator, dtype=torch.float64)
    rows = torch.linalg.qr(torch.cat([ones, noise], 1))[0][:, 1:]  # orthonormal, without a mean
    columns = torch.linalg.qr(torch.randn(16, rank, generator=generator, dtype=torch.float64))[0]
    features = 5.0 + 3.0 * rows @ columns.T  # the offset is a direction that centring removes
    values = spectrum(features)
    assert effective_rank(values) == pytest.approx(rank, rel=1e-4)
    assert srank(values) == rank
    assert values[:rank].numpy() == pytest.approx(3.0)


@given(seed=st.integers(0, 1000), decay=st.floats(0.3, 1.0))
def test_ranks_are_those_of_numpys_singular_values(seed, decay):
    rng = np.random.default_rng(seed)
    features = np.maximum(rng.standard_normal((50, 12)) * decay ** np.arange(12), 0)
    s = np.linalg.svd(features - features.mean(0), compute_uv=False)
    values = spectrum(torch.from_numpy(features))
    np.testing.assert_allclose(values, s, rtol=1e-6, atol=1e-6)
    share = s[s > 0] / s.sum()
    assert effective_rank(values) == pytest.approx(np.exp(-(share * np.log(share)).sum()))
    smallest = next(k for k in range(1, 13) if s[:k].sum() / s.sum() >= 0.99)
    assert srank(values) == smallest


def test_constant_features_have_no_rank():
    values = spectrum(torch.full((10, 4), 2.0))
    assert effective_rank(values) == 0.0
    assert srank(values) == 0


OPTIMIZERS = {
    "adam": lambda p: Optimizer("adam", p, 0.01, epsilon=3e-4),
    "adamw": lambda p: Optimizer("adamw", p, 0.01, weight_decay=0.5),
    "radam": lambda p: Optimizer("radam", p, 0.01),
}


def step_along(optimizer: Optimizer, gradients: list[torch.Tensor]) -> None:
    pairs = zip(gradients, optimizer.parameters, strict=True)
    optimizer.descend(sum((g * p).sum() for g, p in pairs), optimizer.learning_rate)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_last_update_is_what_the_optimizer_added(make):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(4, 3))
    optimizer = make([weight])
    for step in range(12):  # RAdam changes its rule at the sixth
        optimizer.learning_rate = 0.01 / (step + 1)
        before = weight.detach().clone()
        step_along(optimizer, [torch.randn(4, 3)])
        torch.testing.assert_close(
            last_update(optimizer, weight), weight.detach() - before, rtol=1e-3, atol=1e-6
        )


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_recent_gradient_norm_is_exact_for_a_constant_gradient_and_squares_are_averaged(make):
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = make([weight])
    squares = []
    for size in (3.0, 3.0, 1.0):
        step_along(optimizer, [torch.full((4,), size)])
        squares.append(4 * size**2)
        if len(squares) == 2:
            assert recent_gradient_norm(optimizer, weight) == pytest.approx(6.0, rel=1e-4)
    ages = np.arange(len(squares))[::-1]
    mean = np.average(squares, weights=0.999**ages)
    assert recent_gradient_norm(optimizer, weight) == pytest.approx(mean**0.5, rel=1e-4)


def test_motion_is_of_each_kernel_and_the_norm_of_all_parameters():
    weight, bias = torch.nn.Parameter(torch.full((2, 2), 5.0)), torch.nn.Parameter(torch.ones(5))
    optimizer = Optimizer("adam", [weight, bias], 0.1, epsilon=0.0)
    step_along(
        optimizer, [torch.ones(2, 2), torch.ones(5)]
    )  # each of the four weights moves by 0.1, from 5 to 4.9
    motion = layer_motion({"head": weight}, [optimizer])
    assert motion["head/parameter_norm"] == pytest.approx(9.8)
    assert motion["head/effective_learning_rate"] == pytest.approx(0.2 / 9.8)
    assert motion["head/gradient_norm"] == pytest.approx(2.0)
    assert motion["parameter_norm"] == pytest.approx((4 * 4.9**2 + 5 * 0.9**2) ** 0.5)
