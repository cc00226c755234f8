"""Are (s, a) and (s′, a′) one population? Compares the two halves of joined batches.

Where they are not, a critic that is given each half alone normalises the same sample by other
statistics when it predicts than when it bootstraps; in a joined batch both are normalised by the
statistics of both. Relaxed actions of a policy's loss are a third population: the role
`improve_critic`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from bnmodes.diagnostics.mismatch import SPLITS, distance
from bnmodes.diagnostics.passes import NormPass, Pass


def halves_mismatch(joined: Sequence[Pass], rng: np.random.Generator) -> dict[str, float]:
    """Distances of each half from the other and from both together, for each BatchNorm, beside
    those that random halves of the same batches show (`_floor`)."""
    values = {}
    for norms in zip(*(one.norms for one in joined), strict=True):
        found = _mean([_distances(norm, _first_half(norm)) for norm in norms])
        floor = _mean([_distances(norm, _random_halves(norm, rng)) for norm in norms])
        for (pair, name), value in found.items():
            values[f"{pair}/{norms[0].layer}/{name}"] = value
            values[f"{pair}/{norms[0].layer}/{name}_floor"] = floor[pair, name]
    return values


def _distances(
    norm: NormPass, chosen: Float64[Tensor, "sets rows"]
) -> dict[tuple[str, str], float]:
    """By pair and metric; `chosen` is 1 for the samples of one half and 0 for the other's."""
    half = chosen.shape[1] // 2
    first = norm.rows.of_sets(chosen / half, half, norm.convention)
    second = norm.rows.of_sets((1 - chosen) / half, half, norm.convention)
    both = norm.rows.of_all(norm.convention)
    pairs = {"halves": (first, second), "now_half": (first, both), "next_half": (second, both)}
    return {
        (pair, name): value
        for pair, moments in pairs.items()
        for name, value in distance(*moments, norm.epsilon).items()
    }


def _first_half(norm: NormPass) -> Float64[Tensor, "1 rows"]:
    rows = len(norm.rows.mean)
    return (torch.arange(rows, device=norm.rows.mean.device) < rows // 2).double()[None]


def _random_halves(norm: NormPass, rng: np.random.Generator) -> Float64[Tensor, "splits rows"]:
    rows = len(norm.rows.mean)
    order = rng.permuted(np.tile(np.arange(rows), (SPLITS, 1)), axis=1)
    return torch.from_numpy(order < rows // 2).double().to(norm.rows.mean.device)


def _mean(measured: list[dict[tuple[str, str], float]]) -> dict[tuple[str, str], float]:
    return {key: float(np.mean([one[key] for one in measured])) for key in measured[0]}
