"""From returns to scores that can be compared between games: games × seeds × times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.studies.results import StudyResults
from bnmodes.studies.study import Diverged, StudyRun

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
    def most_seeds(self) -> int:
        """That any game has a run of."""
        return int((~np.isnan(self.values[..., 0])).sum(-1).max(initial=0))

    def only(self, games: Sequence[str]) -> "Scores":
        """Without the other games."""
        places = [self.games.index(game) for game in games]
        return replace(self, games=tuple(games), values=self.values[places])


def collect(results: StudyResults, arm: str, *, allow_missing: bool = False) -> Scores:
    """The returns of one arm on the study's grid, averaged over the games at each of its points.

    Missing runs are an error that lists them, or NaN if `allow_missing`. A return that is infinite
    or not a number is −∞, and so are all that would come after a run has diverged
    (`judge_diverged` says what that counts as).
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
    rows = results.returns.filter(pl.col("arm") == arm)
    finite = pl.col("value").is_finite()
    rows = rows.with_columns(value=pl.when(finite).then(pl.col("value")).otherwise(-np.inf))
    values = placed(rows, games, study.seeds, decisions)
    if study.scores_test_envs:
        values = _held(values)
    for run, last_finite_decision in results.diverged.items():
        if run.arm == arm:
            place = games.index(canonical_name(run.game)), study.seeds.index(run.seed)
            gone = (np.array(decisions) > last_finite_decision) | np.isnan(values[place])
            values[place][gone] = -np.inf
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
    places = tuple(
        rows[column].replace_strict(list(labels), list(range(len(labels)))).to_numpy()
        for column, labels in axes
    )
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


def judge_diverged(
    by_arm: Mapping[str, Scores], rule: Diverged = "worst"
) -> tuple[dict[str, Scores], list[tuple[str, str, int]]]:
    """The arms' scores without returns that are not finite, and which runs had them: arm, game,
    seed. Such a return becomes the worst that any arm had on that game at any time, or the whole
    run becomes missing, or all is refused, as the study declares.
    """
    diverged = [
        (arm, scores.games[game], scores.seeds[seed])
        for arm, scores in by_arm.items()
        for game, seed in np.argwhere(np.isneginf(scores.values).any(-1))
    ]
    if not diverged:
        return dict(by_arm), []
    if rule == "refused":
        listed = "; ".join(f"{arm} on {game}, seed {seed}" for arm, game, seed in diverged)
        raise UsageError(
            f"runs diverged ({listed}), which this study refuses: leave them out with --arms, "
            '--games or --seeds, or let the study declare diverged="worst".'
        )
    if rule == "left-out":
        return {arm: _without_diverged(scores) for arm, scores in by_arm.items()}, diverged
    together = np.concatenate([scores.values.swapaxes(0, 1) for scores in by_arm.values()])
    finite = np.where(np.isfinite(together), together, np.inf)  # [arms and seeds, games, times]
    worst = finite.min((0, 2))
    worst = np.where(np.isfinite(worst), worst, 0.0)[:, None, None]  # every run diverged: all alike
    judged = {
        arm: replace(scores, values=np.where(np.isneginf(scores.values), worst, scores.values))
        for arm, scores in by_arm.items()
    }
    return judged, diverged


def _without_diverged(scores: Scores) -> Scores:
    gone = np.isneginf(scores.values).any(-1, keepdims=True)
    return replace(scores, values=np.where(gone, np.nan, scores.values))


def has_human_scores(games: Sequence[str], table: HumanTable = "wang2016") -> bool:
    return all(_human_score(game, table) is not None for game in games)


def human_normalised(scores: Scores, table: HumanTable = "wang2016") -> Scores:
    """0 is a random player and 1 the human of the table: (R − random)/(human − random)."""
    for game in scores.games:
        if _human_score(game, table) is None:
            raise UsageError(
                f"the table {table} has no human score for {game}: "
                "normalise to a reference arm instead."
            )
    known = [_human_score(game, table) for game in scores.games]
    random, human = np.array(known).T[:, :, None, None]
    return replace(
        scores,
        values=(scores.values - random) / (human - random),
        unit=f"human-normalised score ({table})",
    )


def _human_score(game: str, table: HumanTable) -> tuple[float, float] | None:
    """Random and human return. A variant, such as atari/NAME-sticky or atari-small/NAME, has the
    scores of atari/NAME."""
    known, game = _human_table(table), game.replace("atari-small/", "atari/")
    return known.get(game) or known.get(game.rpartition("-")[0])


@cache
def _human_table(table: HumanTable) -> dict[str, tuple[float, float]]:
    text = (files("bnmodes.analysis") / "human_scores.csv").read_bytes()
    rows = pl.read_csv(text).select("game", "random", f"human_{table}").rows()
    return {game: (random, human) for game, random, human in rows}


def reference_scale(reference: Scores) -> dict[str, float]:
    """The reference arm's AUC on each game, averaged over its seeds; NaN where it has no run."""
    by_game = {}
    for game, game_auc in zip(reference.games, auc(reference), strict=True):
        there = game_auc[~np.isnan(game_auc)]
        by_game[game] = float(there.mean()) if there.size else float("nan")
    return by_game


def reference_normalised(scores: Scores, reference: Scores, name: str) -> Scores:
    """Where no human played: 1 is the reference arm's AUC on each game, averaged over seeds."""
    if reference.games != scores.games:
        raise UsageError(f"the reference '{name}' was not played on the same games.")
    scale = reference_scale(reference)
    for game, size in scale.items():
        if np.isnan(size):
            raise UsageError(f"the reference '{name}' has no run on {game}: leave that game out.")
        if size <= 0:
            raise UsageError(
                f"the mean return of the reference '{name}' on {game} is {size:g}, but must be "
                "positive to divide by it: choose another with --reference, or leave the game out."
            )
    return replace(
        scores,
        values=scores.values / np.array(list(scale.values()))[:, None, None],
        unit=f"score in units of the AUC of {name}",
    )


def auc(scores: Scores) -> Float[np.ndarray, "games seeds"]:
    """Mean over the equally spaced times; an extra one at a run's odd end is not in it."""
    return scores.values[:, :, equally_spaced(scores.decisions)].mean(-1)


def equally_spaced(decisions: Sequence[int]) -> Bool[np.ndarray, " times"]:
    """Which times are as far from the one before as the first is from 0."""
    steps = np.diff(decisions, prepend=0)
    return np.abs(steps - steps[0]) <= 1  # the edges of equal parts are rounded


def final(scores: Scores) -> Float[np.ndarray, "games seeds"]:
    """Mean over the last times, as many as the study says."""
    return scores.values[:, :, -scores.final_points :].mean(-1)
