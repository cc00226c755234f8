"""Checkpoints that a kill, a full disk or a damaged file cannot take away.

A checkpoint is a tree of dicts, lists and tuples whose leaves are numbers, strings, booleans,
None, NumPy arrays or tensors. Under the run's folder:

    checkpoints/7/arrays.safetensors   every array and tensor
    checkpoints/7/tree.json            everything else, and where the arrays go
    checkpoints/7/complete.json        size and checksum of both, written last

It is written under another name, flushed to disk, and only then renamed to its number: a number
stands for a save that finished. The two newest are kept, so that when the newest is found damaged
the one before it is used. A replay of a million Atari transitions makes each about 7.4 GB: 15 GB
of disk, and 22 GB while a third is being written. Saving takes no second copy in memory of an
array that is contiguous, and loading maps large arrays from the file instead of reading them.
"""

import json
import shutil
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bnmodes.errors import DamagedError
from bnmodes.files import flush_to_disk

KEPT = 2
_ARRAYS, _TREE, _MARK = "arrays.safetensors", "tree.json", "complete.json"
_PARTIAL = ".partial"
_MAPPED_FROM_BYTES = 64 * 2**20


class Loaded(NamedTuple):
    tree: Any
    notes: list[str]
    """Sentences for the user: which newer checkpoints were damaged and passed over."""


def save(folder: Path, tree: Any) -> None:
    """Add a checkpoint to the run's folder, then delete all but the newest `KEPT`."""
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    for leftover in checkpoints.glob(f"*{_PARTIAL}"):
        shutil.rmtree(leftover)
    number = 1 + max((int(p.name) for p in checkpoints.iterdir() if p.name.isdecimal()), default=0)

    partial = checkpoints / f"{number}{_PARTIAL}"
    partial.mkdir()
    tensors: dict[str, Tensor] = {}
    (partial / _TREE).write_text(json.dumps(_encode(tree, tensors)))
    try:
        save_file(_unshared(tensors), partial / _ARRAYS)
    except SafetensorError as error:  # a full disk, for one
        raise OSError(f"{partial / _ARRAYS} cannot be written: {error}") from None
    flush_to_disk(partial / _TREE)
    flush_to_disk(partial / _ARRAYS)
    (partial / _MARK).write_text(_mark(partial))
    flush_to_disk(partial / _MARK)
    flush_to_disk(partial)
    partial.rename(checkpoints / str(number))
    flush_to_disk(checkpoints)

    for old in _newest_first(checkpoints)[KEPT:]:
        shutil.rmtree(old)


def load(folder: Path, *, discard_damaged: bool = False) -> Loaded | None:
    """The newest undamaged checkpoint of the run's folder; None where none was ever finished.
    Tensors come back on the CPU.

    Whoever goes on saving here discards the damaged ones that it passed over: they would count as
    the newest, and the next save would delete the good one."""
    checkpoints = folder / "checkpoints"
    notes: list[str] = []
    passed_over: list[Path] = []
    for checkpoint in _newest_first(checkpoints):
        damage = _damage(checkpoint)
        if damage is None:
            if discard_damaged:
                for newer in passed_over:
                    shutil.rmtree(newer)
            tensors = load_file(checkpoint / _ARRAYS)
            return Loaded(_decode(json.loads((checkpoint / _TREE).read_text()), tensors), notes)
        passed_over.append(checkpoint)
        notes.append(f"Checkpoint {checkpoint} is damaged ({damage}); the one before it is used.")
    if notes:
        raise DamagedError(
            f"every checkpoint in {checkpoints} is damaged (the oldest: {damage}): "
            "put a good copy back, or delete that folder to start the run from the beginning."
        )
    return None


def _newest_first(checkpoints: Path) -> list[Path]:
    finished = [p for p in checkpoints.glob("*") if p.name.isdecimal() and p.is_dir()]
    return sorted(finished, key=lambda path: int(path.name), reverse=True)


def _damage(checkpoint: Path) -> str | None:
    try:
        if (checkpoint / _MARK).read_bytes() != _mark(checkpoint).encode():
            return f"its files do not match {_MARK}"
    except OSError as error:
        return str(error)
    return None


def _mark(checkpoint: Path) -> str:
    return json.dumps({name: _size_and_checksum(checkpoint / name) for name in (_ARRAYS, _TREE)})


def _size_and_checksum(path: Path) -> list[int]:
    checksum = 0
    with path.open("rb") as file:
        while piece := file.read(2**20):
            checksum = zlib.crc32(piece, checksum)
        return [file.tell(), checksum]


def _encode(node: Any, tensors: dict[str, Tensor]) -> Any:
    """The JSON form of a tree, its arrays and tensors put into `tensors`. Every object in it has
    one key, the kind of node, so that no dict of the tree can be mistaken for an array."""
    match node:
        case None | bool() | int() | float() | str():
            return node
        case list():
            return [_encode(child, tensors) for child in node]
        case tuple():
            return {"tuple": [_encode(child, tensors) for child in node]}
        case dict():
            # Pairs, because JSON would turn the whole-number keys of optimizers into strings.
            return {"dict": [[_key(key), _encode(child, tensors)] for key, child in node.items()]}
        case np.ndarray():
            writable = np.require(node, requirements=["C", "W"])
            return {"array": _put(torch.from_numpy(writable), tensors)}
        case Tensor():
            return {"tensor": _put(node.detach().cpu().contiguous(), tensors)}
    raise TypeError(f"a checkpoint cannot hold a {type(node).__name__}: {node!r}")


def _key(key: Any) -> str | int:
    if isinstance(key, str | int):
        return key
    raise TypeError(f"a checkpoint's dicts are keyed by strings or whole numbers, not {key!r}")


def _put(tensor: Tensor, tensors: dict[str, Tensor]) -> str:
    name = str(len(tensors))
    tensors[name] = tensor
    return name


def _unshared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """safetensors refuses tensors that share memory; here every leaf is a value of its own."""
    unshared, storages = {}, set()
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        unshared[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    return unshared


def _decode(node: Any, tensors: dict[str, Tensor]) -> Any:
    match node:
        case list():
            return [_decode(child, tensors) for child in node]
        case {"tuple": children}:
            return tuple(_decode(child, tensors) for child in children)
        case {"dict": pairs}:
            return {key: _decode(child, tensors) for key, child in pairs}
        case {"array": name}:
            return _own(tensors[name]).numpy()
        case {"tensor": name}:
            return _own(tensors[name])
    return node


def _own(tensor: Tensor) -> Tensor:
    """Small leaves are copied: one of them kept for the length of a run would keep the mapped file,
    replay and all, on disk after its checkpoint was deleted."""
    return tensor.clone() if tensor.nbytes < _MAPPED_FROM_BYTES else tensor
