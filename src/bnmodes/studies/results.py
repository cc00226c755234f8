"""Whatever runs of a study exist, as one tidy table, and which are missing."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder, numbers
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
    frame: pl.DataFrame
    """Tidy: study, arm, game, seed, metric, decision, frame, value. Only finished runs."""
    missing: tuple[StudyRun, ...]
    """Declared runs that are not finished."""
    root: Path


def run_path(root: Path, run: StudyRun) -> Path:
    """Runs are named by the content of their specification, so studies can share them."""
    return root / "runs" / run.spec.content_hash


def log_path(root: Path, run: StudyRun) -> Path:
    return root / "logs" / f"{run.spec.content_hash}.log"


def require_results(root: Path) -> None:
    if not (root / "runs").is_dir():
        raise UsageError(f"{root} holds no results: run the study there first, or give its --out.")


def gather(study: Study, root: Path) -> StudyResults:
    require_results(root)
    rows: list[dict] = []
    missing = []
    for run in study.runs:
        folder = RunFolder(run_path(root, run))
        if folder.finished:
            rows += _tidy(study, run, folder)
        else:
            missing.append(run)
    if not rows:
        begun = sorted(path.name for path in (root / "studies").glob("*"))
        if study.name in begun:
            raise UsageError(
                f"no run of study {study.name} in {root} is finished yet: go on with "
                f"`bnmodes study run {study.name} --out {root}`."
            )
        holds = f" (it holds {', '.join(begun)})" if begun else ""
        raise UsageError(
            f"{root} holds no run of study {study.name}{holds}: run it there first, or give its "
            "--out."
        )
    return StudyResults(study, pl.DataFrame(rows, schema=SCHEMA), tuple(missing), root)


def _tidy(study: Study, run: StudyRun, folder: RunFolder) -> list[dict]:
    key = {"study": study.name, "arm": run.arm, "game": canonical_name(run.game), "seed": run.seed}
    return [
        key | {"metric": metric, "decision": row["decision"], "frame": row["frame"], "value": value}
        for row in folder.metrics()
        for metric, value in numbers(row).items()
    ]
