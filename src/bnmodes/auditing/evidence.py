"""A forward is run on changed running statistics and with other batch-mates: what changes?"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bnmodes.auditing.trees import (
    Change,
    Leaf,
    Leaves,
    at_rows,
    change,
    count_rows,
    is_floating,
    with_other_mates,
)
from bnmodes.errors import UsageError

DIRECTIONS = ((+1, 1.0), (-1, 1.0), (+1, 1e6))
"""Up and down, because one direction alone may silence every ReLU behind it; and far (a positive
one nearly to 0), because a mean that moves by 1 is nothing where inputs are millions."""
FEW_CONSTANTS = 32
"""Buffers that nothing writes are looked at one by one, but not more than these."""


def perturbed(values, direction: int, size: float):
    """Other running statistics, of the same scale and of the same sign where none is negative
    (they may be variances)."""
    if not is_floating(values):
        return values
    if bool((values < 0).any()):
        return values + direction * (abs(values) + size)
    if bool((values > 0).any()):
        return values * (4.0**direction if size == 1 else 1 / size)
    return values + size


@dataclass
class Seen:
    """What one run of the forward shows."""

    outputs: Leaves
    wrote: bool
    """Running statistics were other ones after it than before it."""
    layers: Leaves = field(default_factory=dict)
    """Outputs of single layers, thinned to rows × elements."""


Run = Callable[..., Seen]
"""Called as run(batch, direction=0, size=1.0)."""


@dataclass
class Evidence:
    reads: Change
    mates: Change
    layers_read: Change
    layers_mix: Change
    wrote: bool
    same_for_all_rows: bool
    """Outputs, and those of single layers."""
    whole_numbers: bool
    """No output is of floating point."""


def gather(run: Run, batch) -> Evidence:
    rows = count_rows(batch)
    exchanges = with_other_mates(batch, rows)
    plain, again = run(batch), run(batch)
    noise = change(plain.outputs, again.outputs)
    if noise is Change.CLEAR:
        raise UsageError(
            "this forward gives other outputs for the same rows: let it draw from torch's, "
            "numpy's or Python's global random state, or switch its randomness off."
        )
    axes = _row_axes(run, batch, plain.outputs, rows)
    runs = [plain, again]
    reads = layers_read = Change.NONE
    for direction, size in DIRECTIONS:
        seen = run(batch, direction, size)
        runs.append(seen)
        reads = max(reads, _beyond(noise, change(plain.outputs, seen.outputs)))
        layers_read = max(layers_read, change(plain.layers, seen.layers))
        if reads is Change.CLEAR and direction < 0:
            break
    mates = layers_mix = Change.NONE
    own = {path: 0 for path, leaf in plain.layers.items() if len(leaf.values) == rows}
    for kept, exchanged in exchanges:
        seen = run(exchanged)
        runs.append(seen)
        mates = max(mates, _beyond(noise, change(
            _rows(plain.outputs, axes, kept), _rows(seen.outputs, axes, kept)
        )))  # fmt: skip
        layers_mix = max(
            layers_mix, change(_rows(plain.layers, own, kept), _rows(seen.layers, own, kept))
        )
    return Evidence(
        reads,
        mates,
        layers_read,
        layers_mix,
        wrote=any(seen.wrote for seen in runs),
        same_for_all_rows=_same_for_all_rows(plain.outputs, axes)
        and _same_for_all_rows(plain.layers, own),
        whole_numbers=all(leaf.rounding == 0 for leaf in plain.outputs.values()),
    )


def _beyond(noise: Change, found: Change) -> Change:
    """A faint change says nothing of a forward that changes faintly by itself."""
    return Change.NONE if found <= noise else found


def _row_axes(run: Run, batch, outputs: Leaves, rows: int) -> dict[str, int]:
    """Which axis of each output has the rows: an ensemble's is not the first."""
    found = {
        path: [axis for axis, size in enumerate(leaf.values.shape) if size == rows]
        for path, leaf in outputs.items()
    }
    if any(len(axes) > 1 for axes in found.values()) and rows > 2:
        try:
            fewer = run(at_rows(batch, np.arange(rows - 1))).outputs
        except Exception:  # a forward of fixed size: its first axis is the likeliest
            fewer = {}
        for path in found.keys() & fewer.keys():
            shape = fewer[path].values.shape
            found[path] = [a for a in found[path] if a < len(shape) and shape[a] == rows - 1]
    row_axes = {path: axes[0] for path, axes in found.items() if axes}
    if not row_axes:
        raise UsageError(
            "audit needs a forward that returns a tensor (or a dict or tuple of them) with a row "
            "for each row of the batch: wrap it in a function that does."
        )
    return row_axes


def _rows(outputs: Leaves, axes: dict[str, int], kept: np.ndarray) -> Leaves:
    """Those rows of each output that has rows."""
    return {
        path: Leaf(leaf.values.take(kept, axes[path]), leaf.rounding)
        for path, leaf in outputs.items()
        if path in axes and leaf.values.shape[axes[path] :][:1] > (kept.max(),)
    }


def _same_for_all_rows(outputs: Leaves, axes: dict[str, int]) -> bool:
    first = _rows(outputs, axes, np.array([0]))
    return all(
        np.array_equal(first[path].values + 0 * outputs[path].values, outputs[path].values)
        for path in first
    )


def conclude(found: Change, in_layers: Change, subject: str) -> tuple[bool | None, str | None]:
    """Yes, no or None with the reason, from what outputs and single layers showed."""
    if found is Change.CLEAR or (found is Change.FAINT and in_layers is Change.CLEAR):
        return True, None
    if in_layers is Change.CLEAR:
        return None, (
            f"layers inside depend on {subject}, but the output does not show it: let the forward "
            "return what those layers compute, before it is rounded, chosen from or left out"
        )
    if found is Change.FAINT:
        return None, (
            f"{subject} change the output by no more than rounding does: audit in double "
            "precision, or let the forward return what it computes earlier"
        )
    return False, None
