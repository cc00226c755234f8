"""Learning targets as pure functions: C51's projection, Q(λ), n-step returns, histograms.

HL-Gauss: Imani, White: "Improving Regression Performance with Distributional Losses", ICML 2018,
arXiv:1806.04613. Two-hot over symexp bins: Hafner et al.: "Mastering Diverse Domains through World
Models", 2023, arXiv:2301.04104.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def categorical_projection(
    probabilities: Float[Tensor, "B atoms"],
    reward: Float[Tensor, " B"],
    terminated: Bool[Tensor, " B"],
    support: Float[Tensor, " atoms"],
    gamma: float,
) -> Float[Tensor, "B atoms"]:
    """C51's target: the distribution of r + γ(1 − d)z, put back on the equally spaced support.

    Each moved atom gives its mass to its two neighbours, linearly. Written as a triangular kernel:
    2,601 products a row cost less here than two scatters, and have no branch for whole numbers.
    """
    low, high, spacing = support[0], support[-1], support[1] - support[0]
    discount = gamma * (~terminated).float()
    moved = (reward[:, None] + discount[:, None] * support).clamp(low, high)  # [B, from]
    distance = (moved[:, :, None] - support).abs() / spacing  # [B, from, to]
    weight = (1 - distance).clamp(min=0)
    return (probabilities[:, None, :] @ weight).squeeze(1)


def cross_entropy(
    target: Float[Tensor, "B atoms"], logits: Float[Tensor, "B atoms"]
) -> Float[Tensor, " B"]:
    """Cross-entropy of each row, through log-softmax: no probability is clamped."""
    return -(target * logits.log_softmax(-1)).sum(-1)


def q_lambda(
    reward: Float[Tensor, "T E"],
    next_value: Float[Tensor, "T E"],
    terminated: Bool[Tensor, "T E"],
    cut: Bool[Tensor, "T E"],
    gamma: float,
    lam: float,
) -> Float[Tensor, "T E"]:
    """Q(λ) returns of a rollout, time first: G_t = r_t + γ(1 − d_t)[λ G_{t+1} + (1 − λ) v_t].

    v_t = `next_value[t]` is max-Q of the *true* next observation of step t: row t, never t + 1, and
    the final observation rather than the first one of the next game. `cut[t]` says that step t + 1
    belongs to another game (terminated or truncated): the bracket is then v_t alone, as it is at
    the last step of the rollout. A life loss that ends learning but not the game needs no cut.

    Only the recursion itself runs in Python: one fused multiply-add a step, backwards.
    """
    discount = gamma * (~terminated).to(reward.dtype)
    carry = lam * (~cut).to(reward.dtype)  # the λ of each step: none across a cut
    own = reward + discount * (1 - carry) * next_value
    weight = discount * carry
    following = next_value[-1]  # as G_T, it makes the last bracket λ v + (1 − λ) v = v
    returns = []
    for own_t, weight_t in zip(reversed(own.unbind()), reversed(weight.unbind()), strict=True):
        following = torch.addcmul(own_t, weight_t, following)
        returns.append(following)
    return torch.stack(returns[::-1])


def n_step_return(
    reward: Float[Tensor, "B steps"],
    terminated: Bool[Tensor, "B steps"],
    exists: Bool[Tensor, "B steps"],
    gamma: float,
) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
    """Σ γ^k r_k over the steps that exist, and the discount of the value after the last of them:
    γ to the power of their number, or 0 after a termination."""
    there = exists.float()
    discounts = gamma ** torch.arange(reward.shape[1], device=reward.device)
    total = (there * discounts * reward).sum(1)
    ended = (terminated & exists).any(1)
    return total, gamma ** there.sum(1) * (~ended).float()


@dataclass(frozen=True)
class HLGauss:
    """A scalar as a histogram: the normal mass around it in each of the equal bins.

    Targets decode to themselves (within 1e-3) except nearer than about 3.5σ to an end: there the
    mass outside is missing and pulls the mean inwards. 20 decodes to 19.594 and −10 to −9.594.
    """

    bins: int = 51
    """Number of equal bins on [low, high]."""
    low: float = -10.0
    """Left edge of the first bin, in units of return."""
    high: float = 20.0
    """Right edge of the last bin, in units of return."""
    sigma_widths: float = 0.75
    """Standard deviation of the normal, in bin widths."""

    @property
    def width(self) -> float:
        return (self.high - self.low) / self.bins

    def centres(self, like: Tensor) -> Float[Tensor, " bins"]:
        """Middles of the bins, with the dtype and on the device of `like`."""
        half = self.width / 2
        return torch.linspace(
            self.low + half, self.high - half, self.bins, dtype=like.dtype, device=like.device
        )

    def encode(self, target: Float[Tensor, "*B"]) -> Float[Tensor, "*B bins"]:
        """Normal mass of each bin around the clipped target, over the mass of the support.

        A bin's mass depends on the distance of its centre only, so each is taken in the lower tail,
        where float32 keeps its digits: `ndtr` is 1 + erf, and loses them in both tails.
        """
        scale = self.sigma_widths * self.width * math.sqrt(2)
        target = target.clamp(self.low, self.high)
        distance = (target[..., None] - self.centres(target)).abs() / scale  # [*B, bins]
        half = self.width / (2 * scale)
        mass = torch.erfc(distance - half) - torch.erfc(distance + half)  # twice the bin's mass
        return mass / mass.sum(-1, keepdim=True)  # target inside: never near 0

    def decode(self, probabilities: Float[Tensor, "*B bins"]) -> Float[Tensor, "*B"]:
        """The mean: Σ p_i · centre_i."""
        return probabilities @ self.centres(probabilities)


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
