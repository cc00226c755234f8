"""The rows that a run records: one JSON object in each line of `metrics.jsonl`, only ever appended.

A row has its kind ("train", "evaluation", …), decision and frame, and numbers or lists of numbers
by name. JSON has no infinite numbers and no NaN: they are written as the strings "Infinity",
"-Infinity" and "NaN", and are numbers again when they are read.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

from bnmodes.errors import DamagedError
from bnmodes.files import flush_to_disk, open_in_place, sha256_of

Row = dict[str, Any]

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
MEND = "put a good copy back, or delete the run's folder to run it again."
_LARGEST = 2**63 - 1


class MetricsFile:
    def __init__(self, path: Path):
        self.path = path

    def append(self, row: Row) -> None:
        line = json.dumps({name: _for_json(value) for name, value in row.items()}, allow_nan=False)
        with open_in_place(self.path, "a") as file:
            file.write(line + "\n")

    def size_bytes(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def sha256(self) -> str:
        """Of the whole file; of nothing where there is none."""
        return sha256_of(self.path) if self.path.exists() else sha256_of(Path(os.devnull))

    def flush(self) -> None:
        """To the disk, before a checkpoint that counts on it."""
        if self.path.exists():
            flush_to_disk(self.path)

    def rewind(self, length_bytes: int, sha256: str | None) -> None:
        """Back to a checkpoint, which knows the file's length and checksum then: what came after
        it is going to be done again. Without a checksum the length alone is compared."""
        if self.size_bytes() < length_bytes:
            raise DamagedError(f"{self.path} is shorter than its checkpoint knew it: {MEND}")
        if not self.path.exists():
            return
        if sha256 is not None and sha256_of(self.path, length_bytes) != sha256:
            raise DamagedError(f"{self.path} is not what its checkpoint knew: {MEND}")
        with open_in_place(self.path, "r+") as file:
            file.truncate(length_bytes)

    def rows(self, *, torn_end_allowed: bool) -> list[Row]:
        """All whole lines. A killed run may have torn the last one; a finished one may not."""
        if not self.path.exists():
            return []
        try:
            *lines, rest = self.path.read_text(encoding="utf-8").split("\n")
        except ValueError as error:
            raise DamagedError(f"{self.path} is no text ({error}): {MEND}") from None
        if rest and not torn_end_allowed:
            raise DamagedError(
                f"{self.path} is torn at its end although the run is finished: {MEND}"
            )
        return [self._row(line, number) for number, line in enumerate(lines, start=1)]

    def _row(self, line: str, number: int) -> Row:
        try:
            row = json.loads(line)
            _check(row)
        except (ValueError, RecursionError) as error:
            raise DamagedError(f"{self.path}, line {number} is damaged ({error}): {MEND}") from None
        if '"NaN"' in line or 'Infinity"' in line:  # seldom, and lists are long
            row = {name: _from_json(value) for name, value in row.items()}
        return row


def _check(row: Any) -> None:
    """Raise ValueError where a line is JSON, but no row of metrics."""
    if not isinstance(row, dict):
        raise ValueError("it is no JSON object")
    if not isinstance(row.get("kind"), str):
        raise ValueError("it has no kind")
    for name in ("decision", "frame"):
        if type(row.get(name)) is not int or not 0 <= row[name] <= _LARGEST:
            raise ValueError(f"its {name} is no whole number")
    for name, value in row.items():
        if isinstance(value, bool | dict) or (type(value) is int and abs(value) > _LARGEST):
            raise ValueError(f"its {name} is no number")


def _for_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return [_for_json(one) for one in value] if isinstance(value, list) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(one) for one in value]
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def numbers(row: Row) -> dict[str, float]:
    """The numbers of a row, named `kind/name`; lists of single games are left out."""
    return {
        f"{row['kind']}/{name}": float(value)
        for name, value in row.items()
        if name not in ("kind", "decision", "frame") and isinstance(value, int | float)
    }
