"""A number as a weight on two neighbouring bins, whose spacing grows with their size."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


def symexp(x: Tensor) -> Tensor:
    """sign(x)·(e^|x| − 1)"""
    return x.sign() * x.abs().expm1()


@dataclass(frozen=True)
class TwoHot:
    """Bins at symexp of equal steps: fine around 0, coarse far from it."""

    bins: int = 65
    """Number of bins."""
    limit: float = 10.0
    """The outermost bins stand at ±symexp(limit); numbers beyond are clipped."""

    def places(self, device: torch.device | str = "cpu") -> Float[Tensor, " bins"]:
        return symexp(torch.linspace(-self.limit, self.limit, self.bins, device=device))

    def encode(self, number: Float[Tensor, "*B"]) -> Float[Tensor, "*B bins"]:
        """Weights whose mean place is the number."""
        places = self.places(number.device)
        number = number.clamp(places[0], places[-1])
        above = torch.searchsorted(places, number).clamp(1, self.bins - 1)
        low, high = places[above - 1], places[above]
        share = ((number - low) / (high - low))[..., None]  # of the upper bin
        weights = number.new_zeros(*number.shape, self.bins)
        weights.scatter_(-1, above[..., None], share)
        return weights.scatter_(-1, above[..., None] - 1, 1 - share)

    def decode(self, weights: Float[Tensor, "*B bins"]) -> Float[Tensor, "*B"]:
        return weights @ self.places(weights.device)
