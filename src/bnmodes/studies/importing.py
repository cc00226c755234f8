"""Published runs put back into a folder of results, so that reports can be drawn without a run.

An imported run is marked in its done.json. It has the specification, the hash and the checksums of
every finished run, and only the numbers that were published: no networks, no checkpoints. Its
published.json keeps its files as they were, to be published again.
"""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from bnmodes.errors import UsageError
from bnmodes.files import refuse_link, sha256_of, write_json
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.spec import AnotherVersion, first_difference, spec_from_json
from bnmodes.studies.published import Published, PublishedRun
from bnmodes.studies.results import run_path
from bnmodes.studies.schedule import prepare, refuse_other_files
from bnmodes.studies.study import Study, StudyRun


@dataclass(frozen=True)
class Imported:
    new: tuple[StudyRun, ...]
    there: tuple[StudyRun, ...]
    """Runs that were finished in this folder already, and stay as they are."""


def import_runs(published: Published, study: Study, root: Path) -> Imported:
    """Put the runs back that are not there; what is refused leaves the disk as it was."""
    runs = published.of(study)
    for run, each in runs.items():
        _require_same_run(run, each, published, study)
    refuse_other_files(root)
    refuse_link(root / "runs")
    there = tuple(run for run in runs if _is_there(run, root))
    new = tuple(run for run in runs if run not in there)
    prepare(study, root)
    by_run = published.numbers.partition_by("run", as_dict=True)
    empty = published.numbers.clear()
    with tempfile.TemporaryDirectory(dir=root / "runs", prefix=".import-") as staged:
        for run in new:
            folder = RunFolder(Path(staged) / run.spec.content_hash)
            _write_run(folder, runs[run], by_run.get((run.spec.content_hash,), empty))
        for run in new:  # renamed whole: there is never half a run
            (Path(staged) / run.spec.content_hash).rename(run_path(root, run))
    return Imported(new, there)


def _require_same_run(run: StudyRun, published: PublishedRun, of: Published, study: Study) -> None:
    """The run has the specification that the study declares now, and its hash is that one's."""
    older = of.with_which(study)
    try:
        stored = spec_from_json(published.described["spec"])
    except AnotherVersion as error:
        raise UsageError(f"{of.folder}: {str(error).rstrip('.')}; {older}") from None
    except (KeyError, TypeError, AttributeError):
        raise UsageError(f"{of.folder} holds no specification of {run}: {older}") from None
    if difference := first_difference(stored, run.spec):
        raise UsageError(
            f"{of.folder} holds {run}, with another specification than {study.source} declares "
            f"({difference}): {older}"
        )
    if published.run != run.spec.content_hash:
        raise UsageError(
            f"{of.folder} names {run}, {published.run}, but the hash of its specification is "
            f"{run.spec.content_hash}: it was not written by `bnmodes study publish`."
        )


def _is_there(run: StudyRun, root: Path) -> bool:
    """A finished run that is the same. What is under way, damaged or another run is refused: it
    is somebody's work."""
    folder = RunFolder(run_path(root, run))
    folder.refuse_links()
    if not folder.path.exists():
        return False
    if folder.finished and not folder.damage() and not folder.difference(run.spec):
        return True
    raise UsageError(
        f"{folder.path} holds a run that is not finished, damaged or another one ({run}): import "
        "into another --out."
    )


def _write_run(folder: RunFolder, published: PublishedRun, numbers: pl.DataFrame) -> None:
    folder.path.mkdir()
    write_json(folder.spec_path, published.described | {"commit": published.commit})
    write_json(folder.published_path, published.texts)
    for row in _rows(numbers.iter_rows(named=True)):
        folder.metrics_file.append(row)
    files = (folder.metrics_path, folder.spec_path, folder.published_path)
    replace(
        published.completion,
        networks_kept=False,
        imported=True,
        sha256={path.name: sha256_of(path) for path in files if path.exists()},
    ).write(folder.done_path)


def _rows(numbers: Iterable[dict]) -> list[dict]:
    """The rows of metrics.jsonl that have these numbers, by time."""
    rows: dict[tuple, dict] = {}
    for number in numbers:
        kind, _, name = number["metric"].partition("/")
        place = {"kind": kind, "decision": number["decision"], "frame": number["frame"]}
        key, again = tuple(place.values()), 0
        while name in rows.setdefault((*key, again), dict(place)):  # two rows at one time
            again += 1
        rows[*key, again][name] = number["value"]
    return sorted(rows.values(), key=lambda row: row["decision"])
