"""A study's results as tables for other programs: every number, and the scores of each run."""

from pathlib import Path

import numpy as np
import polars as pl

from bnmodes.analysis.arms import flat_settings, momentum_of, utd_of
from bnmodes.analysis.scores import collect, judge_diverged
from bnmodes.analysis.study_numbers import MEASURES, StudyNumbers
from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.files import replacing
from bnmodes.studies.columns import write_table
from bnmodes.studies.results import StudyResults

_KEY = ("arm", "game", "seed")


def export(results: StudyResults, path: Path) -> tuple[int, Path]:
    """Writes both tables, as Parquet or CSV; gives the rows of the first, and the second's path."""
    if path.suffix not in (".parquet", ".csv"):
        raise UsageError(f"{path} must end in .parquet or .csv.")
    runs = run_table(results)
    measurements = measurement_table(results, runs)
    runs_path = path.with_name(f"{path.stem}-runs{path.suffix}")
    for table, where in ((measurements, path), (runs, runs_path)):
        with replacing(where) as aside:
            write_table(table, aside)
    return len(measurements), runs_path


def measurement_table(results: StudyResults, runs: pl.DataFrame) -> pl.DataFrame:
    """Tidy: a row for each number that a run recorded.

    A time at which nothing was recorded, such as a part of a run in which no game ended, has no
    row, so that a mean of the rows may differ from a score: the run table has the scores.
    """
    hashes = runs.select(*_KEY, "run", "agent").lazy()
    order = ["study", "run", "agent", *_KEY, "metric", "decision", "frame", "value"]
    return results.table.join(hashes, on=list(_KEY)).select(order).collect()


def run_table(results: StudyResults) -> pl.DataFrame:
    """A row for each finished run: what it is, the settings that differ between runs, its scores.

    Scores are raw returns and normalised ones; the latter are empty where there is nothing to
    normalise with, and for runs that the report leaves out.
    """
    study = results.study
    missing = {(run.arm, run.game, run.seed) for run in results.missing}
    there = [run for run in study.runs if (run.arm, run.game, run.seed) not in missing]
    settings = [flat_settings(run) for run in there]
    names = list(dict.fromkeys(name for one in settings for name in one))
    differing = [n for n in names if len({repr(one.get(n)) for one in settings}) > 1]
    rows = []
    for run, of_run in zip(there, settings, strict=True):
        arm = study.arm(run.arm)
        rows.append(
            {
                "study": study.name,
                "run": run.spec.content_hash,
                "agent": arm.agent,
                "arm": arm.name,
                "base": arm.base,
                "game": canonical_name(run.game),
                "seed": run.seed,
                "utd": utd_of(arm) or of_run.get("updates_per_decision"),
                "momentum": momentum_of(arm, run.game),
                **{f"set.{name}": _plain(of_run.get(name)) for name in differing},
            }
        )
    scores = _score_table(results)
    return pl.DataFrame(rows, infer_schema_length=None).join(scores, on=list(_KEY), how="left")


def _plain(value) -> str | None:
    return None if value is None else str(value)


def _score_table(results: StudyResults) -> pl.DataFrame:
    """The scores of each run; a diverged run has what the report counts it as."""
    arms = [arm.name for arm in results.study.arms]
    collected = {arm: collect(results, arm, allow_missing=True) for arm in arms}
    raw, _ = judge_diverged(collected, results.study.diverged)
    try:
        numbers = StudyNumbers(results, allow_missing=True)
        relative = {arm.name: numbers.scores(arm) for arm in numbers.arms}
    except UsageError:  # nothing to compare: the raw returns still are what they are
        relative = {}
    rows: dict[tuple, dict] = {}
    for suffix, by_arm in (("", raw), ("_normalised", relative)):
        for arm, scores in by_arm.items():
            for measure, of in MEASURES.items():
                values = of(scores)
                for (game, seed), value in np.ndenumerate(values):
                    key = (arm, scores.games[game], scores.seeds[seed])
                    rows.setdefault(key, {})[measure + suffix] = value
    names = [measure + suffix for suffix in ("", "_normalised") for measure in MEASURES]
    table = [dict(zip(_KEY, key, strict=True)) | row for key, row in rows.items()]
    key_types = {"arm": pl.String, "game": pl.String, "seed": pl.Int64}
    schema = key_types | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(table, schema=schema).with_columns(pl.col(names).fill_nan(None))
