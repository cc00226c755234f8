"""From returns to scores that can be compared between games: games × seeds × times."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
import polars as pl
from jaxtyping import Float

from bnmodes.envs.atari import STICKY
from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.studies.results import StudyResults
from bnmodes.studies.study import StudyRun

HumanTable = Literal["wang2016", "mnih2015"]

_LISTED = 5  # missing runs that an error names before it only counts them


@dataclass(frozen=True)
class Scores:
    """One arm of a study; a missing run is NaN at all times."""

    games: tuple[str, ...]
    seeds: tuple[int, ...]
    decisions: tuple[int, ...]
    values: Float[np.ndarray, "games seeds times"]
    unit: str
    """What the values are, for axes and tables, e.g. "raw return"."""
    final_points: int = 1
    """How many last times the final score is the mean of."""

    @property
    def games_with_runs(self) -> tuple[str, ...]:
        there = ~np.isnan(self.values).all((1, 2))
        return tuple(game for game, is_there in zip(self.games, there, strict=True) if is_there)

    def only(self, games: Sequence[str]) -> "Scores":
        """The explicit way to leave out games, such as those without any run."""
        places = [self.games.index(game) for game in games]
        return replace(self, games=tuple(games), values=self.values[places])


def collect(results: StudyResults, arm: str, *, allow_missing: bool = False) -> Scores:
    """The returns of one arm on the study's grid, averaged over the games at each of its points.

    Missing runs are an error that lists them, or NaN if `allow_missing`.
    """
    study = results.study
    names = [declared.name for declared in study.arms]
    if arm not in names:
        raise UsageError(f"there is no arm '{arm}' here: choose from {', '.join(names)}.")
    missing = [run for run in results.missing if run.arm == arm]
    if missing and not allow_missing:
        raise UsageError(_missing_message(arm, missing))

    games = tuple(canonical_name(game) for game in study.games)
    decisions = tuple(study.grid)
    is_return = (pl.col("arm") == arm) & (pl.col("metric") == f"{study.metric}/return")
    values = placed(results.frame.filter(is_return), games, study.seeds, decisions)
    if study.metric == "test":
        values = _held(values)
    scores = Scores(games, study.seeds, decisions, values, "raw return", study.final_points)
    _require_whole_runs(scores, arm, missing)
    return scores


def placed(
    rows: pl.DataFrame, games: Sequence[str], seeds: Sequence[int], decisions: Sequence[int]
) -> Float[np.ndarray, "games seeds times"]:
    """The values of one arm and one metric; NaN where there is none."""
    axes = (("game", games), ("seed", seeds), ("decision", decisions))
    for column, labels in axes:
        rows = rows.filter(pl.col(column).is_in(labels))
    values = np.full(tuple(len(labels) for _, labels in axes), np.nan)
    places = tuple([labels.index(label) for label in rows[column]] for column, labels in axes)
    values[places] = rows["value"].to_numpy()
    return values


def _held(values: Float[np.ndarray, "games seeds times"]) -> Float[np.ndarray, "games seeds times"]:
    """Where no test game finished, the last known value holds on; before any, the first one."""
    there = ~np.isnan(values)
    last = np.maximum.accumulate(np.where(there, np.arange(values.shape[-1]), -1), axis=-1)
    first = there.argmax(-1)[..., None]
    return np.take_along_axis(values, np.where(last < 0, first, last), axis=-1)


def _missing_message(arm: str, missing: Sequence[StudyRun]) -> str:
    listed = "; ".join(str(run) for run in missing[:_LISTED])
    more = f"; and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
    number = f"{len(missing)} run{'s' if len(missing) > 1 else ''}"
    return (
        f"{number} of arm '{arm}' missing ({listed}{more}): run the study again, "
        "or go on without them with --allow-missing."
    )


def _require_whole_runs(scores: Scores, arm: str, missing: Sequence[StudyRun]) -> None:
    """A run that says it is finished has every score; only declared gaps may be NaN."""
    known = {(canonical_name(run.game), run.seed) for run in missing}
    for game, seed, time in np.argwhere(np.isnan(scores.values)):
        if (scores.games[game], scores.seeds[seed]) not in known:
            raise UsageError(
                f"{arm} on {scores.games[game]}, seed {scores.seeds[seed]} is finished but has no "
                f"return at decision {scores.decisions[time]}: no game ended in it, or its file "
                "was changed; leave that game out (--games), or run longer."
            )


def human_normalised(scores: Scores, table: HumanTable = "wang2016") -> Scores:
    """0 is a random player and 1 the human of the table: (R − random)/(human − random)."""
    known = _human_table(table)
    for game in scores.games:
        if game not in known:
            raise UsageError(
                f"the table {table} has no human score for {game}: "
                "normalise to a reference arm instead."
            )
    random, human = np.array([known[game] for game in scores.games]).T[:, :, None, None]
    return replace(
        scores,
        values=(scores.values - random) / (human - random),
        unit=f"human-normalised score ({table})",
    )


@cache
def _human_table(table: HumanTable) -> dict[str, tuple[float, float]]:
    text = (files("bnmodes.analysis") / "atari26_scores.csv").read_bytes()
    rows = pl.read_csv(text).select("game", "random", f"human_{table}").rows()
    return {
        f"atari/{game}{setting}": (random, human)
        for game, random, human in rows
        for setting in ("", STICKY)
    }


def reference_normalised(scores: Scores, reference: Scores, name: str) -> Scores:
    """Where no human played: 1 is the reference arm's AUC on each game, averaged over seeds."""
    if reference.games != scores.games:
        raise UsageError(f"the reference '{name}' was not played on the same games.")
    scale = []
    for game, game_auc in zip(reference.games, auc(reference), strict=True):
        there = game_auc[~np.isnan(game_auc)]
        if not there.size:
            raise UsageError(f"the reference '{name}' has no run on {game}: leave that game out.")
        if there.mean() <= 0:
            raise UsageError(
                f"the mean return of the reference '{name}' on {game} is {there.mean():g}, but "
                "must be positive to divide by it: choose another reference or leave the game out."
            )
        scale.append(there.mean())
    return replace(
        scores,
        values=scores.values / np.array(scale)[:, None, None],
        unit=f"score in units of the AUC of {name}",
    )


def normalised(
    results: StudyResults,
    arm: str,
    *,
    table: HumanTable = "wang2016",
    allow_missing: bool = False,
) -> Scores:
    """Human-normalised on Atari, relative to the study's reference arm elsewhere."""
    scores = collect(results, arm, allow_missing=allow_missing)
    if results.study.is_atari:
        return human_normalised(scores, table)
    name = results.study.reference
    reference = collect(results, name, allow_missing=allow_missing)
    return reference_normalised(scores, reference, name)


def auc(scores: Scores) -> Float[np.ndarray, "games seeds"]:
    """Mean over the equally spaced times; an extra one at a run's odd end is not in it."""
    steps = np.diff(scores.decisions, prepend=0)
    equally_spaced = np.abs(steps - steps[0]) <= 1  # the edges of equal parts are rounded
    return scores.values[:, :, equally_spaced].mean(-1)


def auc_with_last(scores: Scores) -> Float[np.ndarray, "games seeds"]:
    """Mean over all times, the one at the end of the run among them."""
    return scores.values.mean(-1)


def final(scores: Scores) -> Float[np.ndarray, "games seeds"]:
    return scores.values[:, :, -scores.final_points :].mean(-1)
