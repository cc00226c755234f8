"""A study's results as a small folder: the numbers that its report needs, and no more.

`numbers.parquet` has them as run, metric, decision, frame, value; `runs.parquet` has a row for each
finished run: arm, game, seed, hash, commit, and its spec.json and done.json as they were;
`study.json` has how they were made, with checksums of both tables and of itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bnmodes import plugins
from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.files import sha256_of, write_json
from bnmodes.runs.completion import Completion, checksum_of
from bnmodes.runs.folder import RunFolder
from bnmodes.studies import columns
from bnmodes.studies.results import SCHEMA, StudyResults, run_path
from bnmodes.studies.study import Study, StudyRun

_FORMAT = 2
_TEXT = pl.String
RUN_SCHEMA = {
    "arm": _TEXT,
    "game": _TEXT,
    "seed": pl.Int64,
    "run": _TEXT,
    "commit": _TEXT,
    "spec_json": _TEXT,
    "done_json": _TEXT,
}
TABLES = {"runs.parquet": RUN_SCHEMA, "numbers.parquet": columns.SCHEMA}


@dataclass(frozen=True)
class PublishedRun:
    """A finished run, as it was published."""

    arm: str
    game: str
    seed: int
    run: str
    """Its hash."""
    commit: str
    """As it records it, or as it was given when it was published."""
    texts: dict[str, str]
    """Its spec.json and its done.json, as they were."""
    described: dict[str, Any]
    """What its spec.json held: specification, protocol, versions, …"""
    completion: Completion


@dataclass(frozen=True)
class Published:
    folder: Path
    study: str
    """How the command line names it."""
    about: dict[str, Any]
    """How it was made: command, commit, machine, …"""
    runs: tuple[PublishedRun, ...]
    numbers: pl.DataFrame

    def of(self, study: Study) -> dict[StudyRun, PublishedRun]:
        """The runs that this study declares, by arm, game and seed; others are refused."""
        declared = {(run.arm, canonical_name(run.game), run.seed): run for run in study.runs}
        for run in self.runs:
            if (run.arm, run.game, run.seed) not in declared:
                raise UsageError(
                    f"{self.folder} holds {run.arm} on {run.game}, seed {run.seed}, which is no "
                    f"run of study {study.name}: {self.with_which(study)}"
                )
        return {declared[run.arm, run.game, run.seed]: run for run in self.runs}

    def with_which(self, study: Study) -> str:
        """How to import what this study no longer declares."""
        if plugins.is_reference(study.source):
            return f"import it with the file {self.study} as it was."
        return (
            f"import it with the version of bnmodes that made it (commit {self.about['commit']})."
        )

    def results(self, study: Study) -> StudyResults:
        """The same numbers as those of the runs themselves, without importing them. The study may
        have changed since: arms, games and seeds are enough here."""
        runs = self.of(study)
        places = pl.DataFrame(
            [(each.run, study.name, each.arm, each.game, each.seed) for each in self.runs],
            schema={"run": _TEXT} | {k: SCHEMA[k] for k in ("study", "arm", "game", "seed")},
            orient="row",
        )
        table = self.numbers.join(places, on="run").select(*SCHEMA).lazy()
        missing = tuple(run for run in study.runs if run not in runs)
        last_finite = {run: each.completion.last_finite_decision for run, each in runs.items()}
        diverged = {run: decision for run, decision in last_finite.items() if decision is not None}
        return StudyResults(study, table, missing, self.folder, diverged=diverged)


def write_published(
    results: StudyResults,
    metrics: set[str],
    about: Mapping[str, Any],
    commits: Mapping[StudyRun, str],
    folder: Path,
) -> None:
    """The finished runs of a study with these metrics, each with its commit; the folder must be
    there."""
    study = results.study
    rows = []
    for run in results.finished:
        of_run = RunFolder(run_path(results.root, run))
        texts = _texts(of_run)
        place = (run.arm, canonical_name(run.game), run.seed, run.spec.content_hash)
        rows.append((*place, commits[run], texts["spec_json"], texts["done_json"]))
    runs = pl.DataFrame(rows, schema=RUN_SCHEMA, orient="row")
    key = ["arm", "game", "seed"]
    hashes = runs.select(*key, "run").lazy()
    numbers = (
        results.table.filter(pl.col("metric").is_in(list(metrics)))
        .join(hashes, on=key)
        .select(*columns.SCHEMA)
        .collect()
        .sort("metric", "run", maintain_order=True)
    )
    for table, name in ((runs, "runs.parquet"), (numbers, "numbers.parquet")):
        columns.write_table(table, folder / name, compression="zstd", compression_level=19)
    data = {
        "format": _FORMAT,
        "study": study.source,
        **about,
        "sha256": {name: sha256_of(folder / name) for name in TABLES},
    }
    write_json(folder / "study.json", data | {"checksum": checksum_of(data)})


def _texts(folder: RunFolder) -> dict[str, str]:
    """Its spec.json and done.json; those of an imported run as they were when it was published."""
    if folder.published_path.exists():
        return json.loads(folder.published_path.read_text(encoding="utf-8"))
    if folder.completion is not None and folder.completion.imported:
        raise UsageError(
            f"{folder.path} was imported by an older version, which did not keep its files as they "
            "were: delete it and import it again."
        )
    paths = {"spec_json": folder.spec_path, "done_json": folder.done_path}
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}


def read_published(folder: Path) -> Published:
    """What `write_published` wrote; anything else is refused."""
    data = _read_description(folder)
    tables = {}
    for name, schema in TABLES.items():
        path = folder / name
        if not path.is_file():
            raise UsageError(f"{path} is gone: put the whole folder back.")
        if sha256_of(path) != data["sha256"].get(name):
            raise UsageError(f"{path} is not what was published: put a good copy back.")
        tables[name] = pl.read_parquet(path)
        if tables[name].schema != pl.Schema(schema):
            raise UsageError(f"{path} has other columns than {', '.join(schema)}: {_ANOTHER}")
    runs = tuple(_read_run(row, folder) for row in tables["runs.parquet"].iter_rows(named=True))
    return Published(folder, data["study"], data, runs, tables["numbers.parquet"])


_ANOTHER = "it was written by another version of bnmodes."


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / "study.json"
    if not path.is_file():
        raise UsageError(
            f"{folder} holds no published results (no study.json): give a folder that "
            "`bnmodes study publish` wrote."
        )
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        checksum, number = data.pop("checksum"), data["format"]
        is_whole = checksum == checksum_of(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_whole, number = False, _FORMAT
    if not is_whole:
        raise UsageError(f"{path} is not what was published: put a good copy back.")
    if number != _FORMAT:
        raise UsageError(f"{path} has format {number}, not {_FORMAT}: {_ANOTHER}")
    return data


def _read_run(row: dict[str, Any], folder: Path) -> PublishedRun:
    try:
        described = json.loads(row["spec_json"])
        done = json.loads(row["done_json"])
        done.pop("checksum", None)
        completion = Completion(**done)
    except (ValueError, TypeError, AttributeError):
        raise UsageError(f"{folder / 'runs.parquet'} cannot be read: {_ANOTHER}") from None
    names = {name: row[name] for name in ("arm", "game", "seed", "run", "commit")}
    texts = {name: row[name] for name in ("spec_json", "done_json")}
    return PublishedRun(**names, texts=texts, described=described, completion=completion)
