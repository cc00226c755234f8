"""Whatever runs of a study exist, as one tidy table, and which are missing."""

import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl

from bnmodes.envs.registry import canonical_name
from bnmodes.errors import DamagedError, UsageError
from bnmodes.runs.folder import RunFolder
from bnmodes.studies.columns import columns_of
from bnmodes.studies.study import Study, StudyRun

SCHEMA = {
    "study": pl.String,
    "arm": pl.String,
    "game": pl.String,
    "seed": pl.Int64,
    "metric": pl.String,
    "decision": pl.Int64,
    "frame": pl.Int64,
    "value": pl.Float64,
}


@dataclass(frozen=True)
class StudyResults:
    study: Study
    table: pl.LazyFrame
    """Tidy: study, arm, game, seed, metric, decision, frame, value. Only finished runs."""
    missing: tuple[StudyRun, ...]
    """Declared runs that are not finished."""
    root: Path
    outdated: Mapping[StudyRun, str] = field(default_factory=dict)
    """Those of the missing runs in whose folder another one is, and what differs."""
    damaged: Mapping[StudyRun, str] = field(default_factory=dict)
    """Those of the missing runs that were finished, and which of their files was changed since."""
    diverged: Mapping[StudyRun, int] = field(default_factory=dict)
    """Finished runs that ended because their networks were no longer finite numbers, and the last
    decision at which they were. They have no scores after it."""
    imported: tuple[StudyRun, ...] = ()
    """Finished runs that were not run here, but put back from published results."""
    asked: set[str] = field(default_factory=set, compare=False)
    """The metrics whose rows were read so far, from this or from a part of it."""

    @property
    def finished(self) -> tuple[StudyRun, ...]:
        """Declared runs whose numbers are in the table."""
        missing = set(self.missing)
        return tuple(run for run in self.study.runs if run not in missing)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of everything that was recorded, e.g. "evaluation/return"."""
        return tuple(sorted(self.table.select(pl.col("metric").unique()).collect()["metric"]))

    def rows(self, metrics: Iterable[str]) -> pl.DataFrame:
        """The part of the table that has these metrics; nothing else is read."""
        names = list(metrics)
        self.asked.update(names)
        return self.table.filter(pl.col("metric").is_in(names)).collect()

    @cached_property
    def returns(self) -> pl.DataFrame:
        """The rows that the study's scores are made of, of all arms."""
        return self.rows([self.study.returns])

    @property
    def frame(self) -> pl.DataFrame:
        """The whole table."""
        return self.table.collect()


def run_path(root: Path, run: StudyRun) -> Path:
    """Runs are named by the content of their specification, so studies can share them."""
    return root / "runs" / run.spec.content_hash


def outdated_runs(study: Study, root: Path) -> dict[StudyRun, str]:
    """The declared runs whose folder holds another finished run, and what differs.

    A hash leaves defaults out, so a run from before a default changed can have the same name.
    """
    outdated = {}
    for run in study.runs:
        folder = RunFolder(run_path(root, run))
        with suppress(DamagedError):  # `damaged_runs` has it
            if folder.finished and (difference := folder.difference(run.spec)):
                outdated[run] = difference
    return outdated


def damaged_runs(study: Study, root: Path) -> dict[StudyRun, str]:
    """The declared runs that were finished and of which a file was changed since, and which."""
    found = {run: RunFolder(run_path(root, run)).damage() for run in study.runs}
    return {run: damage for run, damage in found.items() if damage}


def damaged_notes(damaged: Mapping[StudyRun, str]) -> list[str]:
    return [
        f"{run}: {damage}: left out; put a good copy back, or let `bnmodes study run` set the run "
        "aside and make it again"
        for run, damage in damaged.items()
    ]


def outdated_notes(outdated: Mapping[StudyRun, str], root: Path) -> list[str]:
    """A sentence for each difference, with the runs that have it."""
    alike: dict[str, list[StudyRun]] = {}
    for run, difference in outdated.items():
        alike.setdefault(difference, []).append(run)
    return [
        f"{run_path(root, runs[0])} ({runs[0]}) "
        + (f"and {len(runs) - 1} more hold other runs" if runs[1:] else "holds another run")
        + f" than this study's ({difference}): left out; delete it to run it anew"
        for difference, runs in alike.items()
    ]


def is_imported(run: StudyRun, root: Path) -> bool:
    """Whether the finished run in the folder of results was not run here."""
    completion = RunFolder(run_path(root, run)).completion
    return completion is not None and completion.imported


def imported_note(imported: Collection[StudyRun], total: int) -> str:
    """Which of the finished runs were not made here; empty: none."""
    if not imported:
        return ""
    some = "all" if len(imported) == total else f"{len(imported):,} of"
    return f"{some} {total:,} finished runs were imported from published results, not run here"


def log_path(root: Path, run: StudyRun) -> Path:
    return root / "logs" / f"{run.spec.content_hash}.log"


def holds_results(root: Path) -> bool:
    return (root / "runs").is_dir()


def require_results(root: Path) -> None:
    if not holds_results(root):
        raise UsageError(f"{root} holds no results: run the study there first, or give its --out.")


def gather(study: Study, root: Path) -> StudyResults:
    """The finished runs of a study; their numbers are read when they are asked for."""
    require_results(root)
    folders = {run.spec.content_hash: RunFolder(run_path(root, run)) for run in study.runs}
    damaged = damaged_runs(study, root)
    outdated = {r: what for r, what in outdated_runs(study, root).items() if r not in damaged}
    names = {run.spec.content_hash for run in (*outdated, *damaged)}
    finished = {
        name: folder for name, folder in folders.items() if folder.finished and name not in names
    }
    if not finished:
        notes = damaged_notes(damaged) + outdated_notes(outdated, root)
        raise UsageError(f"{notes[0]}." if notes else _nothing_message(study, root))
    there = [run for run in study.runs if run.spec.content_hash in finished]
    missing = tuple(run for run in study.runs if run.spec.content_hash not in finished)
    games = {game: canonical_name(game) for game in study.games}
    places = pl.DataFrame(
        {
            "run": [run.spec.content_hash for run in there],
            "study": [study.name] * len(there),
            "arm": [run.arm for run in there],
            "game": [games[run.game] for run in there],
            "seed": [run.seed for run in there],
        }
    )
    table = columns_of(finished, root, study.name).join(places.lazy(), on="run").select(*SCHEMA)
    last_finite = {run: folders[run.spec.content_hash].last_finite_decision for run in there}
    diverged = {run: decision for run, decision in last_finite.items() if decision is not None}
    imported = tuple(run for run in there if is_imported(run, root))
    return StudyResults(study, table, missing, root, outdated, damaged, diverged, imported)


def _nothing_message(study: Study, root: Path) -> str:
    begun = sorted(path.name for path in (root / "studies").glob("*"))
    if study.name in begun:
        return (
            f"no run of study {study.name} in {root} is finished yet: go on with "
            f"`bnmodes study run {shlex.quote(study.source)} --out {shlex.quote(str(root))}`."
        )
    holds = f" (it holds {', '.join(begun)})" if begun else ""
    return (
        f"{root} holds no run of study {study.name}{holds}: run it there first, or give its --out."
    )
