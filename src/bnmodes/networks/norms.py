"""Which norm stands between a linear layer and its activation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bnmodes.bounds import Positive
from bnmodes.norm.layers import BatchNorm, LayerNorm, LayerNormAxes, ModedModule, StoredVariance
from bnmodes.protocol import Mode

NormKind = Literal["none", "ln", "bn"]
NormFactory = Callable[[tuple[int, ...]], ModedModule]
"""Makes a norm for features of shape [B, *shape]."""


@dataclass(frozen=True)
class NormSettings:
    """Which normalisation stands before every ReLU."""

    kind: NormKind = "none"
    """No normalisation, LayerNorm or BatchNorm."""
    bn_epsilon: Positive = 1e-5
    """Added to the variance by BatchNorm."""
    bn_stored_variance: StoredVariance = "unbiased"
    """What BatchNorm stores: `unbiased` is PyTorch's convention, `biased` Flax's."""
    ln_epsilon: Positive = 1e-6
    """Added to the variance by LayerNorm."""
    ln_axes: LayerNormAxes = "channels"
    """LayerNorm over `channels` at each position, or over `all` of a feature map."""

    def layer(self, shape: tuple[int, ...]) -> ModedModule:
        """A norm for features of shape [B, *shape]."""
        if self.kind == "bn":
            return BatchNorm(
                shape[0], epsilon=self.bn_epsilon, stored_variance=self.bn_stored_variance
            )
        if self.kind == "ln":
            return LayerNorm(shape, epsilon=self.ln_epsilon, axes=self.ln_axes)
        return NoNorm()


class NoNorm(ModedModule):
    """Stands where a layer has no norm; any mode gives its input."""

    def run(self, x: Tensor, mode: Mode) -> Tensor:
        return x


class PlainLayerNorm(ModedModule):
    """LayerNorm of each sample alone, without scale and offset; any mode gives the same."""

    def run(self, x: Float[Tensor, "B units"], mode: Mode) -> Float[Tensor, "B units"]:
        return F.layer_norm(x, x.shape[1:])


def no_norm(shape: tuple[int, ...]) -> ModedModule:
    return NoNorm()


def layer_norm_on_dense(shape: tuple[int, ...]) -> ModedModule:
    """LayerNorm on dense layers, none on convolutions."""
    return PlainLayerNorm() if len(shape) == 1 else NoNorm()
