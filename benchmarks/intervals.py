"""How fast the bootstrap is, and how often its 95% intervals are right at few seeds.

make bench
"""

import time

import numpy as np

from bnmodes.analysis.statistics import bootstrap, curve, iqm, mean, paired_difference

STUDIES = 1000
RESAMPLES = 1000


def curve_seconds() -> float:
    values = np.random.default_rng(0).normal(size=(26, 10, 60))
    begin = time.perf_counter()
    curve(values, iqm)
    return time.perf_counter() - begin


def coverage(games: int, seeds: int) -> float:
    """Share of intervals of the mean that hold the true one."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=games)
    held = 0
    for study in range(STUDIES):
        values = truth[:, None] + rng.normal(size=(games, seeds))
        interval = bootstrap(values, mean, resamples=RESAMPLES, seed=study)
        held += interval.low <= truth.mean() <= interval.high
    return held / STUDIES


def false_alarms(games: int, seeds: int) -> float:
    """Share of paired intervals of two equal arms that exclude 0."""
    rng = np.random.default_rng(1)
    excluded = 0
    for study in range(STUDIES):
        a, b = rng.normal(size=(2, games, seeds))
        interval = paired_difference(a, b, iqm, resamples=RESAMPLES, seed=study)
        excluded += interval.low > 0 or interval.high < 0
    return excluded / STUDIES


def main() -> None:
    print(f"IQM curve, 26 × 10 × 60, 5,000 resamples: {curve_seconds():.2f} s")
    for games, seeds in ((2, 3), (26, 3), (26, 10)):
        print(
            f"{games:2} games × {seeds:2} seeds: 95% interval covers {coverage(games, seeds):.1%}; "
            f"paired interval of no difference excludes 0 in {false_alarms(games, seeds):.1%}"
        )


if __name__ == "__main__":
    main()
