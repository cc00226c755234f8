"""Published results of others, to stand beside a study's own arms in its figures, marked as such.

They are read from files, of three kinds:

- a table of returns (.csv or .parquet) with the columns arm, game, seed, decision, score, source: a
  row for each evaluation of each run;
- a table of aggregates (.csv or .parquet) with the columns study, arm, measure, unit, point, low,
  high, source, for results of which no single runs are known; measure is auc or final, unit is "raw
  return" (of one game), "human-normalised score" or "% of ARM", low and high may be empty;
- a text file of returns as MR.Q publishes them (.txt).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from bnmodes.analysis.scores import Scores, equally_spaced, placed
from bnmodes.analysis.statistics import Band, Interval, iqm, percent_of_reference
from bnmodes.analysis.study_numbers import MEASURES, StudyNumbers
from bnmodes.analysis.wording import counted
from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.studies.study import Study

RETURNS = {
    "arm": pl.String,
    "game": pl.String,
    "seed": pl.Int64,
    "decision": pl.Int64,
    "score": pl.Float64,
    "source": pl.String,
}
AGGREGATES = {
    "study": pl.String,
    "arm": pl.String,
    "measure": pl.String,
    "unit": pl.String,
    "point": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "source": pl.String,
}
MAY_BE_EMPTY = ("low", "high")
_NEARLY_ALL = 0.95
"""Returns must go on until this share of the study's decisions."""


@dataclass(frozen=True)
class PublishedArm:
    """An arm whose results somebody else has published."""

    name: str
    source: str
    """Where they are from, for the report."""
    scores: Scores | None = None
    """Raw returns on the study's games, at the times that were published; None: not known."""
    aggregates: Mapping[tuple[str, str], Interval] = field(default_factory=dict)
    """IQMs that were published, by measure and unit; without an interval, bounds are NaN."""
    aggregated_games: tuple[str, ...] = ()
    """Games that the aggregates are over: all of the study that their table names."""

    def is_of_other_games(self, numbers: StudyNumbers) -> bool:
        """Whether its aggregates are over other games than those that the study compares."""
        return self.scores is None and set(self.aggregated_games) != set(_games(numbers))

    def label(self, numbers: StudyNumbers) -> str:
        """Its name, marked; with games and decisions where they are not the study's."""
        marks = ["published"]
        if self.is_of_other_games(numbers):
            marks.append(counted(len(self.aggregated_games), "game"))
        total_decisions = numbers.results.study.total_decisions
        if self.scores is not None and self.scores.decisions[-1] != total_decisions:
            marks.append(f"until {self.scores.decisions[-1]:,} decisions")
        return f"{self.name} ({', '.join(marks)})"


def read_arms(paths: Sequence[Path], study: Study, declared: Study) -> tuple[PublishedArm, ...]:
    """The arms in these files that can stand beside those of `study`, which is `declared` or a part
    of it."""
    arms: list[PublishedArm] = []
    for path in paths:
        table = _read_table(path)
        if "measure" in table.columns:
            arms += _with_aggregates(table, declared, path)
        else:
            arms += _with_returns(table, study, path)
    for name in {arm.name for arm in arms}:
        if sum(arm.name == name for arm in arms) > 1:
            raise UsageError(f"--published has the arm '{name}' twice: rename one of them.")
    return tuple(arms)


def _read_table(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise UsageError(f"{path} is no file: give a table of published results.")
    if path.suffix == ".txt":
        return _read_mrq(path)
    if path.suffix not in (".csv", ".parquet"):
        raise UsageError(f"{path} must end in .csv, .parquet or .txt (as MR.Q publishes them).")
    try:
        table = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
        schema = AGGREGATES if "measure" in table.columns else RETURNS
        if set(table.columns) != set(schema):
            raise UsageError(
                f"{path} has the columns {', '.join(table.columns)}: they must be "
                f"{', '.join(RETURNS)}, or {', '.join(AGGREGATES)}."
            )
        table = table.select(pl.col(name).cast(kind) for name, kind in schema.items())
    except pl.exceptions.PolarsError as error:
        problem = str(error).splitlines()[0]
        raise UsageError(f"{path} cannot be read as a table ({problem}): mend it.") from None
    if table.is_empty():
        raise UsageError(f"{path} has no rows: give a table of published results.")
    for name, kind in schema.items():
        known = pl.col(name).is_not_null()
        if kind == pl.Float64:
            known &= pl.col(name).is_finite()
        if name not in MAY_BE_EMPTY and not table.select(known.all()).item():
            raise UsageError(
                f"{path} has a cell in the column {name} that is empty, infinite or not a number: "
                f"fill it; only {' and '.join(MAY_BE_EMPTY)} may be empty."
            )
    return table


def _read_mrq(path: Path) -> pl.DataFrame:
    """A heading "Env: Atari-Pong-v5", a line of seeds, then a line for each time: the decision and
    the return of each seed, with tabs between them."""
    rows, game = [], ""
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            if env := re.fullmatch(r"Env: Atari-(\w+)-v5", line.strip()):
                game = f"atari/{env[1]}-sticky"  # v5 repeats actions at random
            elif line.startswith("Env:"):
                game = ""
            elif game and line[:1].isdigit():
                decision, *returns = line.split()
                rows += [
                    ("MR.Q", game, seed, int(decision), float(value), f"MR.Q, {path.name}")
                    for seed, value in enumerate(returns)
                ]
    except ValueError as error:
        raise UsageError(f"{path} is no text file of MR.Q's results ({error}).") from None
    if not rows:
        raise UsageError(f"{path} holds no Atari results as MR.Q publishes them.")
    return pl.DataFrame(rows, schema=RETURNS, orient="row")


def _with_returns(table: pl.DataFrame, study: Study, path: Path) -> list[PublishedArm]:
    games = [canonical_name(game) for game in study.games]
    in_time = pl.col("decision").is_between(1, study.total_decisions)
    arms = []
    for (name,), rows in table.partition_by("arm", as_dict=True, maintain_order=True).items():
        rows = rows.filter(pl.col("game").is_in(games) & in_time)
        if without := sorted(set(games) - set(rows["game"])):
            raise UsageError(
                f"{path} has no score of {name} on {without[0]} within {study.total_decisions:,} "
                "decisions: leave that game out with --games."
            )
        seeds = tuple(sorted(rows["seed"].unique()))
        decisions = tuple(sorted(rows["decision"].unique()))
        values = placed(rows.rename({"score": "value"}), games, seeds, decisions)
        lacking = np.isnan(values)
        if (lacking.any(-1) != lacking.all(-1)).any() or len(rows) != (~lacking).sum():
            raise UsageError(
                f"{path}: each run of {name} must have one score at each of the same decisions."
            )
        _require_grid(decisions, study, f"{path}: {name}")
        scores = Scores(tuple(games), seeds, decisions, values, "raw return", study.final_points)
        arms.append(PublishedArm(str(name), "; ".join(rows["source"].unique().sort()), scores))
    return arms


def _require_grid(decisions: tuple[int, ...], study: Study, whose: str) -> None:
    """AUC and final score are those of a whole run, evaluated at equal distances as the study's own
    runs are; like theirs, the last distance may be shorter."""
    last_distance = np.diff(decisions, prepend=0)[-1]
    if not equally_spaced(decisions)[:-1].all() or last_distance > decisions[0] + 1:
        raise UsageError(
            f"{whose} has scores at {_listed(decisions)} decisions, which are not equally spaced "
            "from 0, so that they have no AUC: leave out the ones between."
        )
    if decisions[-1] < _NEARLY_ALL * study.total_decisions:
        raise UsageError(
            f"{whose} has scores until {decisions[-1]:,} decisions, but study {study.name} goes on "
            f"until {study.total_decisions:,}: a final score there cannot be compared; leave its "
            "file out."
        )
    if len(decisions) < (needed := min(len(study.grid), max(2, study.final_points))):
        raise UsageError(
            f"{whose} has {counted(len(decisions), 'score')} a run within "
            f"{study.total_decisions:,} decisions, but AUC and final score need {needed}."
        )


def _listed(decisions: Sequence[int]) -> str:
    first = ", ".join(f"{decision:,}" for decision in decisions[:3])
    return f"{first}, …" if len(decisions) > 3 else first


def _with_aggregates(table: pl.DataFrame, study: Study, path: Path) -> list[PublishedArm]:
    table = table.filter(pl.col("study") == study.name)
    if table.is_empty():
        raise UsageError(f"{path} has no row of study {study.name}: give another file.")
    games = tuple(canonical_name(game) for game in study.games)
    arms = []
    for (name,), rows in table.partition_by("arm", as_dict=True, maintain_order=True).items():
        found = {}
        for row in rows.iter_rows(named=True):
            if row["measure"] not in MEASURES:
                raise UsageError(f"{path}: the measure of {name} must be auc or final.")
            bounds = (np.nan if row[end] is None else row[end] for end in ("low", "high"))
            found[row["measure"], row["unit"]] = Interval(row["point"], *bounds)
        source = "; ".join(rows["source"].unique().sort())
        arms.append(PublishedArm(str(name), source, None, found, games))
    return arms


def published_interval(numbers: StudyNumbers, arm: PublishedArm, measure: str) -> Interval | None:
    """The arm's IQM as the study's own are shown; None where it was not published, or in a unit
    that cannot be compared."""
    whole = numbers.reference_point(measure)
    if arm.scores is not None:
        values = MEASURES[measure](numbers.normalise(_compared(numbers, arm.scores)))
        band = numbers.band(values[..., None], iqm)
        found = Interval(*(float(of[0]) for of in (band.point, band.low, band.high)))
        return found if whole is None else percent_of_reference(found, whole)
    for (of_measure, unit), found in arm.aggregates.items():
        if of_measure == measure and unit == numbers.relative_unit(measure):
            return found
        if of_measure == measure and (shown := _in_unit_of(numbers, arm, found, unit)) is not None:
            if whole is None:
                return shown
            if not arm.is_of_other_games(numbers):  # 100% is a score over the compared games
                return percent_of_reference(shown, whole)
    return None


def _in_unit_of(
    numbers: StudyNumbers, arm: PublishedArm, interval: Interval, unit: str
) -> Interval | None:
    games = _games(numbers)
    if unit == "human-normalised score" and numbers.human:
        return interval
    if unit == "raw return" and len(games) == 1 and not arm.is_of_other_games(numbers):
        values = np.array([[[interval.point, interval.low, interval.high]]])
        shown = numbers.normalise(Scores(games, (0,), (1, 2, 3), values, unit)).values[0, 0]
        return Interval(*map(float, shown))
    return None


def published_curve(numbers: StudyNumbers, arm: PublishedArm) -> tuple[Sequence[int], Band] | None:
    """Decisions and the IQM at each; None where only aggregates were published."""
    if arm.scores is None:
        return None
    values = numbers.normalise(_compared(numbers, arm.scores)).values
    return arm.scores.decisions, numbers.band(values, iqm)


def _compared(numbers: StudyNumbers, scores: Scores) -> Scores:
    return scores.only(_games(numbers))


def _games(numbers: StudyNumbers) -> tuple[str, ...]:
    """Those that the study compares."""
    return tuple(canonical_name(game) for game in numbers.compared.study.games)


def require_shown(numbers: StudyNumbers) -> None:
    """Refuse an arm of which no figure could show anything."""
    for arm in numbers.published:
        if not any(published_interval(numbers, arm, measure) for measure in MEASURES):
            units = ", ".join(dict.fromkeys(unit for _, unit in arm.aggregates))
            theirs = counted(len(arm.aggregated_games), "game")
            ours = counted(len(_games(numbers)), "game")
            raise UsageError(
                f"the published arm '{arm.name}' is in {units} over {theirs}, which cannot stand "
                f"beside {numbers.relative_unit('auc')} over {ours}: leave its file out."
            )
