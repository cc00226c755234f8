"""Discrete actions as points of a simplex: Gumbel-Softmax samples, and the corner next to one.

A policy proposes a *relaxed* action, softmax((logits + Gumbel noise)/temperature): a point inside
the simplex that a critic can be differentiated at. What is done in a game, and what a target
bootstraps from, is a corner: the largest part of the relaxed action after Gaussian noise.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor


def gumbel_softmax(
    logits: Float[Tensor, "B actions"], temperature: float, rng: torch.Generator
) -> Float[Tensor, "B actions"]:
    """The relaxed action; its argmax is a sample of softmax(logits), whatever the temperature."""
    exponential = torch.empty_like(logits).exponential_(generator=rng)
    return ((logits - exponential.log()) / temperature).softmax(-1)  # −log Exp(1) is Gumbel


def noisy_action(
    relaxed: Float[Tensor, "B actions"],
    deviation: float,
    rng: torch.Generator,
    clip: float = math.inf,
) -> Int64[Tensor, " B"]:
    """The largest part of a relaxed action after Gaussian noise."""
    noise = torch.empty_like(relaxed).normal_(generator=rng) * deviation
    return (relaxed + noise.clamp(-clip, clip)).argmax(-1)


def one_hot(action: Int64[Tensor, " B"], num_actions: int) -> Float[Tensor, "B actions"]:
    return F.one_hot(action, num_actions).float()
