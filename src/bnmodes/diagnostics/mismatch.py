"""How far running statistics are from the statistics of the batches that a forward really gets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bnmodes.norm.layers import StoredVariance

SPLITS = 8
"""Random pairs of batches that a noise floor is the mean of."""
_SCALES_WITH_VARIANCE = "kl"


@dataclass(frozen=True)
class Moments:
    """Mean and variance of each channel."""

    mean: Float64[Tensor, "*sets C"]
    variance: Float64[Tensor, "*sets C"]


@dataclass(frozen=True)
class RowMoments:
    """Mean and mean square of each sample over its positions; those of any set follow from them."""

    mean: Float64[Tensor, "B C"]
    square: Float64[Tensor, "B C"]
    positions: int

    def of_sets(
        self, weights: Float64[Tensor, "*sets B"], rows: int, convention: StoredVariance
    ) -> Moments:
        """Moments of sets of `rows` samples each, which `weights` average; variance as the layer
        stores it."""
        mean = weights @ self.mean
        variance = (weights @ self.square - mean.square()).clamp(min=0)
        if convention == "unbiased":
            variance = variance * (rows * self.positions / (rows * self.positions - 1))
        return Moments(mean, variance)

    def of_all(self, convention: StoredVariance) -> Moments:
        rows = len(self.mean)
        return self.of_sets(self.mean.new_full((rows,), 1 / rows), rows, convention)


def row_moments(x: Float[Tensor, "B C *HW"]) -> RowMoments:
    x = x.flatten(2) if x.ndim > 2 else x[:, :, None]  # [B, C, positions]
    x = x.double()
    return RowMoments(x.mean(-1), x.square().mean(-1), x.shape[-1])


def joined(parts: Sequence[RowMoments]) -> RowMoments:
    mean, square = torch.cat([p.mean for p in parts]), torch.cat([p.square for p in parts])
    return RowMoments(mean, square, parts[0].positions)


def stacked(parts: Sequence[Moments]) -> Moments:
    return Moments(
        torch.stack([part.mean for part in parts]), torch.stack([part.variance for part in parts])
    )


def distance(stored: Moments, batch: Moments, epsilon: float) -> dict[str, float]:
    """Metrics by name: summaries over channels, mean over sets.

    `epsilon` is the layer's, because what it divides by is √(variance + ε). The mean shift is in
    standard deviations of the batch, the log variance ratio is unsigned, and the divergence is
    KL(stored‖batch) + KL(batch‖stored) of normal distributions.
    """
    stored_variance, batch_variance = stored.variance + epsilon, batch.variance + epsilon
    gap = stored.mean - batch.mean
    shift = gap.abs() / batch_variance.sqrt()
    ratio = stored_variance / batch_variance
    precision = 1 / stored_variance + 1 / batch_variance
    divergence = (ratio + 1 / ratio - 2 + gap.square() * precision) / 2
    median, high = torch.quantile(shift, shift.new_tensor([0.5, 0.9]), dim=-1)
    summaries = {
        "mean_shift": median,
        "mean_shift_p90": high,
        "log_variance_ratio": torch.quantile(ratio.log().abs(), 0.5, dim=-1),
        "kl": divergence.mean(-1),
    }
    return {name: float(value.mean()) for name, value in summaries.items()}


def noise_floor(
    rows: RowMoments,
    batch_rows: int,
    epsilon: float,
    convention: StoredVariance,
    rng: np.random.Generator,
) -> dict[str, float]:
    """The `distance` between two independent batches of `batch_rows` samples of one population.

    Two disjoint random sets of the measured samples are two such batches, whatever the
    distribution of activations. Whole samples are drawn: positions of one feature map are
    correlated, so a formula that counts samples × positions would give far too small a floor. Where
    there are fewer than two batches of samples, the sets are smaller, and their distance is scaled
    as sampling noise is: with 1/√size, and the quadratic divergence with 1/size.
    """
    available = len(rows.mean)
    size = min(batch_rows, available // 2)
    order = torch.from_numpy(rng.permuted(np.tile(np.arange(available), (SPLITS, 1)), axis=1))
    order = order.to(rows.mean.device)
    weights = rows.mean.new_zeros(2, SPLITS, available)
    for half in weights.unbind():
        half.scatter_(1, order[:, :size], 1 / size)
        order = order[:, size:]
    first, second = (rows.of_sets(half, size, convention) for half in weights.unbind())
    noise = size / batch_rows
    return {
        name: value * (noise if name == _SCALES_WITH_VARIANCE else noise**0.5)
        for name, value in distance(first, second, epsilon).items()
    }
