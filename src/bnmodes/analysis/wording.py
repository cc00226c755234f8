"""Numbers in sentences: counts with their noun, and a point with its interval."""

from collections.abc import Mapping

from bnmodes.analysis.statistics import Interval


def counted(number: int, noun: str) -> str:
    """As "1 game" or "3 games"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def games_and_seeds(seeds: Mapping[str, int]) -> str:
    """As "2 games and 5 seeds" of the numbers of seeds by game; games that have fewer are named."""
    most = max(seeds.values())
    said = f"{counted(len(seeds), 'game')} and {counted(most, 'seed')}"
    fewer = [f"{game}: {count}" for game, count in seeds.items() if count < most]
    return f"{said}, fewer on some ({', '.join(fewer)})" if fewer else said


def written(interval: Interval, unit: str = "", *, sign: bool = False) -> str:
    """Point and interval with as many digits as matter; "[–]" where the seeds have no spread, as
    one seed has none: then there is no interval."""
    size = max(abs(interval.point), abs(interval.low), abs(interval.high))
    digits = 0 if size >= 10 else 2
    plus = "+" if sign else ""
    low, high = (f"{bound:{plus}.{digits}f}" for bound in (interval.low, interval.high))
    bounds = "–" if interval.low == interval.high else f"{low}, {high}"
    return f"{interval.point:{plus}.{digits}f}{unit} [{bounds}]".replace("-", "−")


def p_value(p: float) -> str:
    """As "p 0.032"."""
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}" if p < 0.1 else f"p {p:.2f}"
