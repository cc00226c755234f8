"""Discrete actions as points of a simplex: Gumbel-Softmax samples, and the one-hot action of one.

A policy proposes a *relaxed* action, softmax((logits + Gumbel noise)/temperature): a point inside
the simplex that a critic can be differentiated at. The action that is executed, and that a
target bootstraps from, is the argmax of the relaxed action after Gaussian noise, as a one-hot
vector. Jang, Gu, Poole: "Categorical Reparameterization with Gumbel-Softmax", ICLR 2017,
arXiv:1611.01144.
"""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def gumbel_noise(shape: tuple[int, ...], rng: torch.Generator) -> Float[Tensor, "*shape"]:
    return -torch.empty(shape).exponential_(generator=rng).log()  # −log Exp(1) is Gumbel


def gaussian_noise(shape: tuple[int, ...], rng: torch.Generator) -> Float[Tensor, "*shape"]:
    return torch.empty(shape).normal_(generator=rng)


def gumbel_softmax(
    logits: Float[Tensor, "B actions"], temperature: float, gumbel: Float[Tensor, "B actions"]
) -> Float[Tensor, "B actions"]:
    """The relaxed action; its argmax is a sample of softmax(logits), whatever the temperature."""
    return ((logits + gumbel) / temperature).softmax(-1)


def noisy_action(
    relaxed: Float[Tensor, "B actions"],
    gaussian: Float[Tensor, "B actions"],
    deviation: float,
    clip: float = math.inf,
) -> Int64[Tensor, " B"]:
    """The argmax of a relaxed action after clipped Gaussian noise of this standard deviation."""
    return (relaxed + (gaussian * deviation).clamp(-clip, clip)).argmax(-1)


def one_hot(action: Int64[Tensor, " B"], num_actions: int) -> Float[Tensor, "B actions"]:
    # F.one_hot looks at the largest action first, and a device would have to be waited for.
    return (action[:, None] == torch.arange(num_actions, device=action.device)).float()
