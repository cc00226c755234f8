"""Nested dicts, lists and tuples of arrays, and whether two of them differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from bnmodes.errors import UsageError

_ROUNDINGS = 64
"""A clear change is so many times the spacing of numbers as large as the output,"""
_LARGE = 0.03
"""or this share of the output, where numbers have few digits."""
_KEPT_PER_ROW = 1024
"""Of a layer's outputs, so many elements of each row are compared, at equal distances."""


class Change(IntEnum):
    NONE = 0
    FAINT = 1
    """As small as rounding."""
    CLEAR = 2


@dataclass(frozen=True)
class Leaf:
    values: np.ndarray
    """In double precision."""
    rounding: float
    """Relative distance of neighbouring numbers of its own kind; 0 for whole numbers."""


Leaves = dict[str, Leaf]


def is_array(value: object) -> bool:
    return isinstance(value, Tensor) or (hasattr(value, "__array__") and hasattr(value, "shape"))


def map_arrays(change: Callable, tree):
    """The same nesting, with each array changed; everything else as it is."""
    if is_array(tree):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: map_arrays(change, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_arrays(change, value) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_arrays(change, value) for value in tree)
    return tree


def arrays(tree, path: str = "") -> dict:
    """Each array by its path."""
    if is_array(tree):
        return {path: tree}
    if isinstance(tree, Mapping):
        parts = list(tree.items())
    elif isinstance(tree, (list, tuple)):
        parts = list(enumerate(tree))
    else:
        return {}
    return {k: v for key, value in parts for k, v in arrays(value, f"{path}/{key}").items()}


def copied(tree):
    """The same, in memory of its own."""
    return map_arrays(lambda a: a.clone() if isinstance(a, Tensor) else np.array(a), tree)


def leaves(tree) -> Leaves:
    return {path: leaf(array) for path, array in arrays(tree).items()}


def leaf(array) -> Leaf:
    if isinstance(array, Tensor):
        array = array.detach()
        floating = array.is_floating_point() or array.is_complex()
        rounding = torch.finfo(array.dtype).eps if floating else 0.0
        array = torch.view_as_real(array) if array.is_complex() else array
        return Leaf(array.to("cpu", torch.float64, copy=True).numpy(), rounding)
    kind = str(array.dtype)
    array = np.asarray(array)
    # bfloat16 and its kin are no kinds of numpy's own.
    whole = array.dtype.kind in "iub"
    known = array.dtype.kind == "f"
    rounding = 0.0 if whole else float(np.finfo(array.dtype).eps) if known else 2.0**-7
    try:
        return Leaf(array.astype(np.float64), rounding)
    except (TypeError, ValueError):
        raise UsageError(f"audit cannot compare arrays of {kind}: leave them out.") from None


def is_floating(array) -> bool:
    if isinstance(array, Tensor):
        return array.is_floating_point()
    return np.asarray(array).dtype.kind not in "iubOSU"


def thinned(values: np.ndarray, rows: int) -> np.ndarray:
    """Some elements of each row, so that the outputs of all layers can be kept."""
    if values.ndim == 0 or len(values) != rows:
        return values.reshape(-1)[:: max(1, values.size // (rows * _KEPT_PER_ROW))]
    flat = values.reshape(rows, -1)
    return flat[:, :: max(1, flat.shape[1] // _KEPT_PER_ROW)]


def change(a: Leaves, b: Leaves) -> Change:
    """Of b against a; arrays that only one of them has are not compared."""
    return max((_change(a[path], b[path]) for path in a.keys() & b.keys()), default=Change.NONE)


def _change(a: Leaf, b: Leaf) -> Change:
    x, y = a.values, b.values
    if x.shape != y.shape:
        return Change.CLEAR
    other = ~((x == y) | (np.isnan(x) & np.isnan(y)))
    if not other.any():
        return Change.NONE
    x, y = x[other], y[other]
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return Change.CLEAR
    size = max(np.abs(side.values[np.isfinite(side.values)]).max() for side in (a, b))
    clear = np.abs(x - y).max() > min(_ROUNDINGS * a.rounding, _LARGE) * size
    return Change.CLEAR if clear else Change.FAINT


def count_rows(batch) -> int:
    """The length that all arrays of the batch have in common."""
    lengths = {path: array.shape[0] for path, array in arrays(batch).items() if array.ndim}
    if not lengths:
        raise UsageError("audit found no tensor with rows in this batch: give it one, or a dict or "
                         "tuple of them.")  # fmt: skip
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{path or 'batch'}: {length}" for path, length in lengths.items())
        raise UsageError(
            f"the tensors of this batch have different numbers of rows ({told}): give audit "
            "tensors whose first axis is the rows."
        )
    (rows,) = set(lengths.values())
    if rows < 2:
        raise UsageError("one row has no batch-mates to exchange: give audit two rows or more.")
    return rows


def at_rows(batch, places: np.ndarray):
    """The batch that has these rows of it."""
    return map_arrays(lambda array: array[places] if array.ndim else array, batch)


def with_other_mates(batch, rows: int) -> list[tuple[np.ndarray, object]]:
    """Each half kept, with copies of its rows in the other's place: all are rows of this batch."""
    half = rows // 2
    variations = []
    for kept, replaced in ((range(half), range(half, rows)), (range(half, rows), range(half))):
        places = np.arange(rows)
        places[replaced] = np.array(kept)[np.arange(len(replaced)) % len(kept)]
        exchanged = at_rows(batch, places)
        if change(leaves(batch), leaves(exchanged)) is Change.NONE:
            raise UsageError("the rows of this batch are alike: give audit different ones.")
        variations.append((np.array(kept), exchanged))
    return variations
