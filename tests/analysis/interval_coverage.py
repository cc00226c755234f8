"""How often 95% intervals are right, and how often a report of equal arms claims a difference.

python tests/analysis/interval_coverage.py [--studies 400] [--seed 1]

Five families of made-up scores, each with games of different level and spread: normal; skewed
(lognormal); heavy tails (Student's t with 3 degrees of freedom); failing (three runs of ten stay
at a tenth of the level); ties (whole numbers from 0 to 4). The truth is what 40,000 seeds of the
same games give. Contrasts are of an arm and one that is better by half a spread on half of the
games. A study of equal arms is six arms of one law with two measures that go together (correlation
0.8), judged as a report judges them.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from bnmodes.analysis.resampling import INTERVALS, bootstrap, curve, paired_difference
from bnmodes.analysis.significance import holm, permutation_p_values
from bnmodes.analysis.statistics import AGGREGATES, iqm

RESAMPLES = 1000
SIZES = ((26, 3), (26, 5), (26, 10), (5, 3))
ARMS = 6


def _normal(rng, shape):
    return rng.normal(size=shape)


def _skewed(rng, shape):
    return (np.exp(0.8 * rng.normal(size=shape)) - np.exp(0.32)) / 1.3


def _heavy(rng, shape):
    return rng.standard_t(3, size=shape) / np.sqrt(3)


def _failing(rng, shape):
    return np.where(rng.random(shape) < 0.3, -1.4, 0.6) + 0.3 * rng.normal(size=shape)


def _ties(rng, shape):
    return rng.binomial(4, 0.5, size=shape) - 2.0


FAMILIES: dict[str, Callable] = {
    "normal": _normal,
    "skewed": _skewed,
    "heavy": _heavy,
    "failing": _failing,
    "ties": _ties,
}


class Law:
    """Games with a level and a spread each; `shift` is in spreads, on every second game."""

    def __init__(self, family: str, games: int, rng: np.random.Generator):
        self.noise = FAMILIES[family]
        self.level = rng.lognormal(0, 0.7, (games, 1))
        self.spread = self.level * rng.uniform(0.1, 0.6, (games, 1))
        self.half = (np.arange(games) % 2 == 0)[:, None]

    def runs(self, rng, seeds: int, shift: float = 0.0) -> np.ndarray:
        noise = self.noise(rng, (len(self.level), seeds))
        return self.level + self.spread * (noise + shift * self.half)


def coverage(family: str, games: int, seeds: int, studies: int, seed: int) -> dict[str, list]:
    """Of each kind of interval: the shares of intervals of the IQM, and of contrasts, that hold."""
    rng = np.random.default_rng([seed, games, seeds, sorted(FAMILIES).index(family)])
    held = {kind: np.zeros(2) for kind in INTERVALS}
    for study in range(studies):
        law = Law(family, games, rng)
        truths = [iqm(law.runs(rng, 40_000 // games, shift)) for shift in (0.0, 0.5)]
        ours, theirs = law.runs(rng, seeds, 0.5), law.runs(rng, seeds)
        for kind in INTERVALS:
            options = {"interval": kind, "resamples": RESAMPLES, "seed": study}
            one, two = bootstrap(theirs, **options), paired_difference(ours, theirs, **options)
            held[kind] += [
                one.low <= truths[0] <= one.high,
                two.low <= truths[1] - truths[0] <= two.high,
            ]
    return {kind: list(counts / studies) for kind, counts in held.items()}


def false_claims(family: str, games: int, seeds: int, studies: int, seed: int) -> float:
    """Share of studies of equal arms in which any of them is called above or below the first."""
    rng = np.random.default_rng([seed, games, seeds, 7, sorted(FAMILIES).index(family)])
    claimed = 0
    for study in range(studies):
        law = Law(family, games, rng)
        first, other = (np.array([law.runs(rng, seeds) for _ in range(ARMS)]) for _ in range(2))
        arms = np.stack([first, 0.8 * first + 0.6 * other], axis=1)  # arms, measures, games, seeds
        found = [
            permutation_p_values(arm, arms[0], permutations=1000, seed=study) for arm in arms[1:]
        ]
        claimed += min(p.min() for p in holm(found)) <= 0.05
    return claimed / studies


def other_aggregates(
    family: str, games: int, seeds: int, studies: int, seed: int
) -> dict[str, float]:
    """Coverage of the stretched interval of each aggregate."""
    rng = np.random.default_rng([seed, games, seeds, 11, sorted(FAMILIES).index(family)])
    held = dict.fromkeys(AGGREGATES, 0)
    for study in range(studies):
        law = Law(family, games, rng)
        many, few = law.runs(rng, 40_000 // games), law.runs(rng, seeds)
        for name, statistic in AGGREGATES.items():
            found = bootstrap(few, statistic, resamples=RESAMPLES, seed=study)
            held[name] += found.low <= statistic(many) <= found.high
    return {name: count / studies for name, count in held.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begin = time.perf_counter()
    curve(np.random.default_rng(0).normal(size=(26, 10, 60)), iqm)
    print(f"IQM curve, 26 × 10 × 60, 5,000 resamples: {time.perf_counter() - begin:.2f} s\n")

    print("coverage of 95% intervals, mean over families (least and most of one family)")
    print("games × seeds    interval     IQM                  contrast")
    for games, seeds in SIZES:
        found = [coverage(f, games, seeds, options.studies, options.seed) for f in FAMILIES]
        for kind in INTERVALS:
            shares = np.array([one[kind] for one in found]).T  # [IQM or contrast, families]
            cells = [f"{x.mean():.1%} ({x.min():.1%}, {x.max():.1%})" for x in shares]
            size = f"{games:2} × {seeds}"
            print(f"{size:16} {kind:12} {cells[0]:20} {cells[1]}", flush=True)
    print("\ncoverage of the stretched interval of each aggregate, as above")
    for games, seeds in SIZES:
        found = [other_aggregates(f, games, seeds, options.studies, options.seed) for f in FAMILIES]
        cells = []
        for name in AGGREGATES:
            x = np.array([one[name] for one in found])
            cells.append(f"{name} {x.mean():.1%} ({x.min():.1%}, {x.max():.1%})")
        print(f"{games:2} × {seeds}: {'; '.join(cells)}", flush=True)
    print(f"\nreports of {ARMS} equal arms that claim a difference, by family")
    for games, seeds in ((2, 3), (5, 3)):
        found = {f: false_claims(f, games, seeds, options.studies, options.seed) for f in FAMILIES}
        said = ", ".join(f"{name} {share:.1%}" for name, share in found.items())
        print(f"{games} × {seeds}: mean {np.mean(list(found.values())):.1%} ({said})", flush=True)
    print(f"\n{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
