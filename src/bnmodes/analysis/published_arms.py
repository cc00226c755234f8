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

from bnmodes.analysis.scores import Scores, placed
from bnmodes.analysis.statistics import Band, Interval, iqm, percent_of_reference
from bnmodes.analysis.study_numbers import MEASURES, StudyNumbers
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

    @property
    def label(self) -> str:
        return f"{self.name} (published)"


def read_arms(paths: Sequence[Path], study: Study) -> tuple[PublishedArm, ...]:
    """The arms in these files that can stand beside this study's."""
    arms: list[PublishedArm] = []
    for path in paths:
        table = _read_table(path)
        read = _with_aggregates if "measure" in table.columns else _with_returns
        arms += read(table, study, path)
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
        return table.select(pl.col(name).cast(kind) for name, kind in schema.items())
    except pl.exceptions.PolarsError as error:
        problem = str(error).splitlines()[0]
        raise UsageError(f"{path} cannot be read as a table ({problem}): mend it.") from None


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
        scores = Scores(tuple(games), seeds, decisions, values, "raw return")
        arms.append(PublishedArm(str(name), "; ".join(rows["source"].unique().sort()), scores))
    return arms


def _with_aggregates(table: pl.DataFrame, study: Study, path: Path) -> list[PublishedArm]:
    table = table.filter(pl.col("study") == study.name)
    if table.is_empty():
        raise UsageError(f"{path} has no row of study {study.name}: give another file.")
    arms = []
    for (name,), rows in table.partition_by("arm", as_dict=True, maintain_order=True).items():
        found = {}
        for row in rows.iter_rows(named=True):
            if row["measure"] not in ("auc", "final") or row["point"] is None:
                raise UsageError(f"{path}: a row of {name} has no auc or final with a point.")
            bounds = (np.nan if row[end] is None else row[end] for end in ("low", "high"))
            found[row["measure"], row["unit"]] = Interval(row["point"], *bounds)
        source = "; ".join(rows["source"].unique().sort())
        arms.append(PublishedArm(str(name), source, None, found))
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
        if of_measure == measure and (shown := _in_unit_of(numbers, found, unit)) is not None:
            return shown if whole is None else percent_of_reference(shown, whole)
    return None


def _in_unit_of(numbers: StudyNumbers, interval: Interval, unit: str) -> Interval | None:
    games = tuple(canonical_name(game) for game in numbers.compared.study.games)
    if unit == "human-normalised score" and numbers.human:
        return interval
    if unit == "raw return" and len(games) == 1:
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
    return scores.only([canonical_name(game) for game in numbers.compared.study.games])


def require_shown(numbers: StudyNumbers) -> None:
    """Refuse an arm of which no figure could show anything."""
    for arm in numbers.published:
        if not any(published_interval(numbers, arm, measure) for measure in MEASURES):
            units = ", ".join(dict.fromkeys(unit for _, unit in arm.aggregates))
            raise UsageError(
                f"the published arm '{arm.name}' is in {units}, which cannot stand beside "
                f"{numbers.relative_unit('auc')}: leave its file out."
            )
