"""Files that are either whole or not there, and links that are not followed.

Results may come from someone else. A link in them could point at any file of the reader's, so the
files that are written in place are opened without following links; all others are written aside
and renamed, which replaces a link instead of what it points at.
"""

import errno
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bnmodes.errors import UsageError

ASIDE = ".tmp"
"""Ends the name of a file that is being written; one that stays was left by a killed process."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; it is renamed to `path` if nothing fails, and deleted otherwise. The
    folder is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays: writers of pictures and tables choose the format by it.
    aside = path.with_name(f"{path.stem}.{uuid.uuid4().hex}{ASIDE}{path.suffix}")
    try:
        yield aside
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """What processes killed in the middle of a write have left. Nobody may be writing there."""
    for path in folder.glob(f"*{ASIDE}*"):
        path.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """A reader never meets half a file. The folder must be there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder has disappeared", str(path.parent))
    with replacing(path) as aside:
        aside.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def open_in_place(path: Path, mode: str) -> IO[str]:
    """`open` for a file of ours that is changed in place; a link is refused, not followed.

    Modes "r", "a" and "r+" as usual; none of them cuts a file off."""
    try:
        return open(path, mode, encoding="utf-8", opener=_without_following)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(_LINK.format(path=path)) from None
        raise


def refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise UsageError(_LINK.format(path=path))


_LINK = (
    "{path} is a link, and links inside a folder of results are not followed: put the real file or "
    "folder there, or let --out itself be the link."
)


def _without_following(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def flush_to_disk(path: Path) -> None:
    """A file's content, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path, length_bytes: int | None = None) -> str:
    """Of a whole file, or of its first bytes."""
    digest, left = hashlib.sha256(), length_bytes
    with path.open("rb") as file:
        while piece := file.read(2**20 if left is None else min(left, 2**20)):
            digest.update(piece)
            left = None if left is None else left - len(piece)
    return digest.hexdigest()
