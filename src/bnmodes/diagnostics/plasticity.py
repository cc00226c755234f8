"""Dormant units, rank of the features, and how fast each layer moves.

Dormant units: Sokar, Agarwal, Castro, Evci: "The Dormant Neuron Phenomenon in Deep Reinforcement
Learning", ICML 2023, arXiv:2302.12902. srank: Kumar, Agarwal, Ghosh, Levine: "Implicit
Under-Parameterization Inhibits Data-Efficient Deep Reinforcement Learning", ICLR 2021,
arXiv:2010.14498. Entropy rank: Roy, Vetterli: "The effective rank", EUSIPCO 2007.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bnmodes.learning.optimizer import Optimizer, rectification

DORMANT_THRESHOLDS = (0.0, 0.025, 0.1)
SRANK_DELTA = 0.01


def dormant_units(activity: Float[Tensor, " units"], threshold: float) -> int:
    """Units of a layer whose mean |activation| is at most `threshold` times the layer's mean."""
    return int((activity <= threshold * activity.mean()).sum())


def dormant_fractions(activity: Mapping[str, Float[Tensor, " _"]]) -> dict[str, float]:
    """Shares of dormant units, pooled and per layer, by metric name; `activity` is each unit's mean
    |activation| over samples and positions."""
    units = sum(map(len, activity.values()))
    fractions = {}
    for threshold in DORMANT_THRESHOLDS:
        dormant = {layer: dormant_units(a, threshold) for layer, a in activity.items()}
        fractions[f"dormant_{threshold:g}"] = sum(dormant.values()) / units
        fractions |= {
            f"{layer}/dormant_{threshold:g}": count / len(activity[layer])
            for layer, count in dormant.items()
        }
    return fractions


def spectrum(features: Float[Tensor, "rows units"]) -> Float64[Tensor, " units"]:
    """Singular values of the centred features, largest first; NaN where a network has diverged."""
    centred = features.double() - features.double().mean(0)
    if not centred.isfinite().all():
        return torch.full((features.shape[1],), torch.nan, dtype=torch.float64)
    eigenvalues = torch.linalg.eigvalsh(centred.T @ centred)
    return eigenvalues.clamp(min=0).sqrt().flip(0)


def effective_rank(singular_values: Float64[Tensor, " units"]) -> float:
    """exp of the entropy of the singular values' shares; 0 where all features are constant."""
    if not singular_values.any():
        return 0.0
    share = singular_values / singular_values.sum()
    return float(torch.special.entr(share).sum().exp())


def srank(singular_values: Float64[Tensor, " units"]) -> float:
    """How many of the largest singular values make up all but δ of their sum."""
    cumulated = singular_values.cumsum(0)
    if cumulated[-1].isnan():
        return math.nan
    whole = cumulated[-1]
    return float((cumulated < (1 - SRANK_DELTA) * whole).sum() + (whole > 0))


def last_update(optimizer: Optimizer, parameter: Tensor) -> Tensor:
    """What the optimizer's last step added to a parameter, from the moments that it keeps.

    So a resumed run, which has no gradient yet, measures what an undisturbed one does.
    """
    steps, gradient_mean, gradient_square = optimizer.moments(parameter)
    rate, (beta1, beta2) = optimizer.learning_rate, optimizer.betas
    mean, square = gradient_mean / (1 - beta1**steps), gradient_square / (1 - beta2**steps)
    if optimizer.rule != "radam":
        added = -rate * mean / (square.sqrt() + optimizer.epsilon)
        if optimizer.rule == "adam":
            return added
        decay = rate * optimizer.weight_decay  # share of the weight that went before the step
        return (added - decay * parameter.detach()) / (1 - decay)
    rectified = rectification(int(steps), beta2)
    if rectified is None:
        return -rate * mean
    factor, bias = rectified
    return -rate * mean * factor * bias / (gradient_square.sqrt() + optimizer.epsilon)


def recent_gradient_norm(optimizer: Optimizer, parameter: Tensor) -> float:
    """Root mean square norm over about the last 1/(1 − β₂) updates, as the optimizer met them."""
    steps, _, gradient_square = optimizer.moments(parameter)
    return float((gradient_square.sum() / (1 - optimizer.betas[1] ** steps)).sqrt())


def layer_motion(
    kernels: Mapping[str, Tensor], optimizers: Sequence[Optimizer]
) -> dict[str, float]:
    """Norm, recent gradient norm and effective learning rate ‖Δw‖/‖w‖ of each layer's kernel."""
    owners = {p: optimizer for optimizer in optimizers for p in optimizer.parameters}
    motion = {"parameter_norm": _norm(list(owners))}
    for layer, kernel in kernels.items():
        norm, optimizer = _norm([kernel]), owners[kernel]
        motion[f"{layer}/parameter_norm"] = norm
        motion[f"{layer}/gradient_norm"] = recent_gradient_norm(optimizer, kernel)
        motion[f"{layer}/effective_learning_rate"] = (
            _norm([last_update(optimizer, kernel)]) / norm if norm else 0.0
        )
    return motion


@torch.no_grad()
def _norm(tensors: Sequence[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.square().sum()) for tensor in tensors))
