"""Distances between moments: known shifts, an independent divergence, and a known population."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from bnmodes.diagnostics.mismatch import Moments, distance, joined, noise_floor, row_moments

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("shape", [(10, 3), (6, 3, 4, 5)])
@pytest.mark.parametrize(("convention", "ddof"), [("unbiased", 1), ("biased", 0)])
def test_moments_are_those_of_all_rows_and_positions(shape, convention, ddof):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3 + 100
    halves = joined([row_moments(x[:4]), row_moments(x[4:])])
    channels = np.moveaxis(x.double().numpy(), 1, 0).reshape(3, -1)
    for rows in (row_moments(x), halves):
        moments = rows.of_all(convention)
        np.testing.assert_allclose(moments.mean, channels.mean(1), rtol=1e-12)
        np.testing.assert_allclose(moments.variance, channels.var(1, ddof=ddof), rtol=1e-8)


@given(
    shift=st.floats(-5, 5),
    scale=st.floats(0.1, 10),
    seed=st.integers(0, 1000),
)
def test_a_known_shift_and_scale_are_found(shift, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(9, generator=generator, dtype=torch.float64)
    variance = torch.rand(9, generator=generator, dtype=torch.float64) + 0.1
    batch = Moments(mean, variance)
    stored = Moments(mean + shift * variance.sqrt(), variance * scale)
    found = distance(stored, batch, epsilon=0.0)
    assert found["mean_shift"] == pytest.approx(abs(shift))
    assert found["mean_shift_p90"] == pytest.approx(abs(shift))
    assert found["log_variance_ratio"] == pytest.approx(abs(np.log(scale)), abs=1e-12)
    p, q = (Normal(m.mean, m.variance.sqrt()) for m in (stored, batch))
    assert found["kl"] == pytest.approx(
        (kl_divergence(p, q) + kl_divergence(q, p)).mean().item(), abs=1e-9
    )


def test_medians_and_percentiles_are_over_channels():
    batch = Moments(torch.zeros(101).double(), torch.full((101,), 4.0).double())
    stored = Moments(torch.arange(101).double(), batch.variance)
    found = distance(stored, batch, epsilon=0.0)
    assert found["mean_shift"] == 25.0
    assert found["mean_shift_p90"] == 45.0


def test_a_channel_without_variance_is_divided_as_the_layer_divides():
    constant = Moments(torch.zeros(2).double(), torch.zeros(2).double())
    stored = Moments(torch.ones(2).double(), torch.zeros(2).double())
    assert distance(stored, constant, epsilon=0.25)["mean_shift"] == 2.0


def population(kind: str, rows: int, generator: torch.Generator) -> torch.Tensor:
    """Rows of mean 1 and variance 4 in each channel."""
    if kind == "dense":
        return 1 + 2 * torch.randn(rows, 40, generator=generator)
    # A map whose positions are one number: 49 positions know no more than one does.
    per_row = torch.randn(rows, 40, 1, 1, generator=generator)
    return 1 + 2 * per_row.expand(rows, 40, 7, 7)


@pytest.mark.parametrize("kind", ["dense", "correlated positions"])
@pytest.mark.parametrize("batches", [1, 2, 8])
def test_the_noise_floor_is_the_distance_of_two_independent_batches(kind, batches):
    """Whose rows are drawn anew here, instead of split as the floor's are."""
    generator, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    rows, repeats = 32, 60
    floors, truths = [], []
    for _ in range(repeats):
        drawn = row_moments(population(kind, batches * rows, generator))
        floors.append(noise_floor(drawn, rows, 1e-5, "unbiased", rng))
        pair = [row_moments(population(kind, rows, generator)).of_all("unbiased") for _ in range(2)]
        truths.append(distance(*pair, epsilon=1e-5))
    for name in floors[0]:
        floor, truth = (np.mean([d[name] for d in ds]) for ds in (floors, truths))
        # Halves of one batch are scaled to its size, which is exact for many rows only.
        assert floor == pytest.approx(truth, rel=0.12 if batches > 1 else 0.2), name


def test_the_floor_falls_with_the_number_of_rows():
    drawn = row_moments(population("dense", 512, torch.Generator().manual_seed(0)))
    floors = [
        noise_floor(drawn, rows, 1e-5, "unbiased", np.random.default_rng(0)) for rows in (16, 256)
    ]
    assert floors[0]["mean_shift"] / floors[1]["mean_shift"] == pytest.approx(4, rel=0.2)
    assert floors[0]["kl"] / floors[1]["kl"] == pytest.approx(16, rel=0.3)
