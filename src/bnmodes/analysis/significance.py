"""Is a difference between two arms more than chance? Permutation tests and Holm's correction.

If two arms are equal, then within each game any of their runs could have been either arm's. So the
runs of each game are dealt out anew to the two arms, and the difference of their means is judged by
how many of these deals differ as much. (Judged by the difference of IQMs, five runs that all beat
five others on one game could be chance: where a deal gives an arm a single run of the other's kind,
the IQM leaves just that run out.) Every deal is looked at where there are few, else a random
sample.
Runs of different arms with the same seed share nothing but their seed (the first update drives them
apart), so all runs of a game are dealt together; only seeds that both arms have are used. If seeds
did couple the arms, the test would be cautious: a true difference would be found less often.

Two measures of the same pair are judged together by the smaller of their p-values (Westfall and
Young, 1993), which costs little because they go together; over several pairs, Holm (1979).
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from bnmodes.analysis.resampling import shared_runs
from bnmodes.analysis.statistics import compare, mean, require_runs

PERMUTATIONS = 10_000
"""Deals that are looked at, at most."""
_CHUNK = 2**20  # numbers that are dealt out at once


def permutation_p_values(
    a: Float[np.ndarray, "measures games seeds"],
    b: Float[np.ndarray, "measures games seeds"],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Float[np.ndarray, " measures"]:
    """Two-sided p-value of each measure, already corrected for the number of measures."""
    a, b = shared_runs(a, b)
    require_runs(a)
    present = ~np.isnan(a[0])
    pooled = np.concatenate([a, b], axis=-1)  # measures, games, both arms' seeds
    sides, is_exact = _deals(present, permutations, np.random.default_rng(seed))
    observed = _size(mean(a), mean(b))  # [measures]
    step = max(1, _CHUNK // pooled.size)
    dealt = np.concatenate(
        [_dealt(pooled, sides[at : at + step]) for at in range(0, len(sides), step)],
        axis=-1,
    )  # [measures, deals]
    if not is_exact:  # the deal that was seen is one of them
        dealt = np.concatenate([observed[:, None], dealt], axis=-1)
    ordered = np.sort(dealt, axis=-1)
    deals = dealt.shape[-1]

    def p_of(sizes):
        slack = 1e-9 * np.abs(sizes) + 1e-300
        places = [np.searchsorted(o, s) for o, s in zip(ordered, sizes - slack, strict=True)]
        return (deals - np.array(places)) / deals

    smallest = p_of(dealt).min(0)  # of each deal
    return np.array([(smallest <= p + 1e-12).mean() for p in p_of(observed[:, None])[:, 0]])


def smallest_possible_p(present: Bool[np.ndarray, "games seeds"]) -> float:
    """Where every run of one arm beats every run of the other: two deals of all differ so much."""
    return min(1.0, 2 / math.prod(math.comb(2 * int(n), int(n)) for n in present.sum(-1)))


def holm(
    p_values: Sequence[Float[np.ndarray, " measures"]], family: int = 0
) -> list[Float[np.ndarray, " measures"]]:
    """The p-values of each pair, corrected for the number of pairs (`family` where there are more
    than have a p-value), in the order of the pairs.

    Step down from the smallest p-value of all pairs and measures. A pair stays in the count until
    all of its measures are passed: a difference that is real by one measure says nothing of the
    other.
    """
    corrected = [np.ones_like(p) for p in p_values]
    absent, least = max(0, family - len(p_values)), 0.0
    for p, pair, measure in sorted(
        (p, pair, measure) for pair, ps in enumerate(p_values) for measure, p in enumerate(ps)
    ):
        left = absent + sum(ps.max() >= p for ps in p_values)
        least = max(least, left * float(p))
        corrected[pair][measure] = min(1.0, least)
    return corrected


def _size(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """|a − b|, where a difference of rounding is none."""
    return np.abs(np.where(compare(a, b) == 0, 0.0, np.subtract(a, b)))


def _deals(
    present: Bool[np.ndarray, "games seeds"], permutations: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "deals games both_seeds"], bool]:
    """Of each place of both arms together: 0 or 1 for the arm that gets it, -1 where no run is."""
    places = np.concatenate([present, present], axis=-1)
    number = present.sum(-1)
    if math.prod(math.comb(2 * int(n), int(n)) for n in number) <= permutations:
        by_game = [_every_deal(of_game) for of_game in places]
        return np.array(list(itertools.product(*by_game))), True
    keys = np.where(places, rng.random((permutations, *places.shape)), np.inf)
    rank = np.argsort(np.argsort(keys, axis=-1), axis=-1)
    return np.where(places, (rank >= number[:, None]).astype(int), -1), False


def _every_deal(places: Bool[np.ndarray, " both_seeds"]) -> list[np.ndarray]:
    runs = np.flatnonzero(places)
    deals = []
    for chosen in itertools.combinations(runs, len(runs) // 2):
        sides = np.where(places, 1, -1)
        sides[list(chosen)] = 0
        deals.append(sides)
    return deals


def _dealt(pooled: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """[measures, deals]: how far apart the arms are after each deal."""
    runs = (sides >= 0).sum(-1)[0] // 2  # of each arm in each game, the same in every deal
    if (runs == sides.shape[-1] // 2).all():  # nothing missing: half of the places each
        order = np.argsort(sides, axis=-1, kind="stable")
        half = sides.shape[-1] // 2
        arms = (order[..., :half], order[..., half:])
        first, second = (np.take_along_axis(pooled[:, None], arm[None], axis=-1) for arm in arms)
    else:
        first, second = (np.where(sides == side, pooled[:, None], np.nan) for side in (0, 1))
    return _size(mean(first), mean(second))
