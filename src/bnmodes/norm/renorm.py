"""Batch renormalisation: batch statistics, held near the running ones after a warm-up.

Ioffe: "Batch Renormalization: Towards Reducing Minibatch Dependence in Batch-Normalized Models",
NeurIPS 2017, arXiv:1702.03275.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.norm.layers import BatchNorm, FirstRows, StoredVariance
from bnmodes.protocol import Mode

MAX_SCALE = 3.0
"""Largest r, and 1/r: how far the batch's deviation may be from the stored one."""
MAX_SHIFT = 5.0
"""Largest |d|: how far the batch's mean may be from the stored one, in stored deviations."""


class BatchRenorm(BatchNorm):
    """BatchNorm until `warmup_updates` passes have written; then y = (x − μ_b)/σ_b · r + d.

    r = σ_b/σ and d = (μ_b − μ)/σ, both clipped and without a gradient: within the clips a row is
    normalised as running statistics would do it, so the output depends on them here too.
    """

    updates: Tensor

    def __init__(
        self,
        channels: int,
        *,
        warmup_updates: int,
        epsilon: float = 1e-5,
        stored_variance: StoredVariance = "unbiased",
    ):
        super().__init__(channels, epsilon=epsilon, stored_variance=stored_variance)
        self.warmup_updates = warmup_updates
        # A float, so that a target network's average of all buffers can include it.
        self.register_buffer("updates", torch.zeros(()))

    def run(self, x: Float[Tensor, "B C *HW"], mode: Mode) -> Float[Tensor, "B C *HW"]:
        if mode.statistics != "batch":
            return super().run(x, mode)
        if isinstance(mode, FirstRows):
            raise ValueError("batch renormalisation uses the statistics of its own batch only")
        # Both are computed: to ask which one is due would be to wait for the device.
        warm = self.updates >= self.warmup_updates
        r, d = self._correction(x.detach())
        y = super().run(x, mode)
        if mode.update is not None:
            self.updates += 1
        wide = (-1, *[1] * (x.ndim - 2))  # one number a channel, over rows and positions
        bias = self.bias.view(wide)
        corrected = (y - bias) * r.view(wide) + (self.weight * d).view(wide) + bias
        return torch.where(warm, corrected, y)

    def _correction(self, x: Tensor) -> tuple[Float[Tensor, " C"], Float[Tensor, " C"]]:
        axes = (0, *range(2, x.ndim))
        deviation = (x.var(axes, unbiased=False) + self.epsilon).sqrt()
        stored = (self.variance + self.epsilon).sqrt()
        r = (deviation / stored).clamp(1 / MAX_SCALE, MAX_SCALE)
        d = ((x.mean(axes) - self.mean) / stored).clamp(-MAX_SHIFT, MAX_SHIFT)
        return r, d
