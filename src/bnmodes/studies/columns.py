"""The numbers of many runs as columns, kept in one file so that they are parsed only once.

A run's `metrics.jsonl` is the truth. Beside the runs, `columns/STUDY.parquet` has the same numbers
as run, metric, decision, frame, value, sorted by metric, so that a reader who wants one metric
reads a small part of it; `columns/STUDY.json` has the SHA-256 of each file that they came from and
of the table itself. A run whose checksum differs is parsed again; a damaged or lost cache is made
anew; where it cannot be written, the numbers stay in memory.
"""

import json
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bnmodes.files import refuse_link, replacing, sha256_of, write_json
from bnmodes.runs.folder import RunFolder

_FORMAT = 1
SCHEMA = {
    "run": pl.String,
    "metric": pl.String,
    "decision": pl.Int64,
    "frame": pl.Int64,
    "value": pl.Float64,
}
_NOT_NUMBERS = ("kind", "decision", "frame")
_ROW_GROUP = 65_536


def columns_of(runs: Mapping[str, RunFolder], root: Path, name: str) -> pl.LazyFrame:
    """The numbers of these runs, which are finished and given by their hashes.

    The table may hold other runs of the study too: join it with what is wanted.
    """
    table_path, index_path = (root / "columns" / f"{name}.{end}" for end in ("parquet", "json"))
    known = _read_index(index_path, table_path)
    checksums = {run: _checksum(folder.metrics_path) for run, folder in runs.items()}
    changed = [run for run, checksum in checksums.items() if known.get(run) != checksum]
    if not changed:
        return pl.scan_parquet(table_path)
    table = _parse({run: runs[run] for run in changed})
    kept = {run: checksum for run, checksum in known.items() if run not in changed}
    if kept:
        old = pl.scan_parquet(table_path).filter(pl.col("run").is_in(list(kept))).collect()
        table = pl.concat([old, table])
        del old
    table = table.sort("metric", "run", maintain_order=True)
    try:
        _write(table, table_path, index_path, kept | {run: checksums[run] for run in changed})
    except OSError:  # a folder of someone else's
        return table.lazy()
    return pl.scan_parquet(table_path)


def _checksum(path: Path) -> str:
    return sha256_of(path) if path.exists() else ""


def _read_index(index_path: Path, table_path: Path) -> dict[str, str]:
    """The checksums of the runs in the table; none where either file is not as it was written."""
    try:
        index = json.loads(index_path.read_text())
        if index["format"] == _FORMAT and index["table"] == _checksum(table_path):
            return dict(index["runs"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {}


def _write(
    table: pl.DataFrame, table_path: Path, index_path: Path, checksums: dict[str, str]
) -> None:
    refuse_link(table_path.parent)
    with replacing(table_path) as aside:  # two reports may write at once
        write_table(table, aside, row_group_size=_ROW_GROUP)
        index = {"format": _FORMAT, "table": _checksum(aside), "runs": checksums}
    write_json(index_path, index)


def write_table(table: pl.DataFrame, path: Path, **options: Any) -> None:
    """As Parquet or CSV; raises OSError where polars has exceptions of its own, as for a full
    disk."""
    write = table.write_csv if ".csv" in path.suffixes else table.write_parquet
    try:
        write(path, **options)
    except pl.exceptions.PolarsError as error:
        raise OSError(f"{path} cannot be written: {error}") from None


def _parse(runs: Mapping[str, RunFolder]) -> pl.DataFrame:
    """Every number of the runs' rows, named `kind/name`; lists of single games are left out."""
    codes: dict[str, dict[str, int]] = {}  # of kind and name
    names: list[str] = []
    metric, decision, frame, value = array("I"), array("q"), array("q"), array("d")
    lengths = []
    for folder in runs.values():
        before = len(value)
        for row in folder.metrics():
            of_kind = codes.setdefault(row["kind"], {})
            row_decision, row_frame = row["decision"], row["frame"]
            for name, number in row.items():
                if name in _NOT_NUMBERS or not isinstance(number, int | float):
                    continue
                code = of_kind.get(name)
                if code is None:
                    code = of_kind[name] = len(names)
                    names.append(f"{row['kind']}/{name}")
                metric.append(code)
                decision.append(row_decision)
                frame.append(row_frame)
                value.append(number)
        lengths.append(len(value) - before)
    places = np.frombuffer(metric, dtype=np.uint32) if len(metric) else np.zeros(0, np.uint32)
    run_places = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
    return pl.DataFrame(
        {
            "run": pl.Series(list(runs), dtype=pl.String).gather(run_places),
            "metric": pl.Series(names, dtype=pl.String).gather(places),
            "decision": np.array(decision, dtype=np.int64),
            "frame": np.array(frame, dtype=np.int64),
            "value": np.array(value, dtype=np.float64),
        },
        schema=SCHEMA,
    )
