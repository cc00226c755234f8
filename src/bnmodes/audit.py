"""Which statistics does a forward really use? Found by perturbation, on any PyTorch module.

Stored moments are changed, batch-mates are exchanged, buffers are looked at: what the output does
then is a fact about the forward, whatever `.train()`, `.eval()` or a wrapper meant it to do.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bnmodes.errors import UsageError
from bnmodes.protocol import Mode

_RELATIVE_CHANGE = 1e-5
"""Of the largest output: above what float32 rounds differently when other rows are computed."""


@dataclass(frozen=True)
class Audit:
    """What was observed of one forward."""

    reads_stored_moments: bool
    """Its output depends on the moments that are stored."""
    depends_on_batch_mates: bool
    """A row's output depends on which other rows are in the batch."""
    writes_stored_moments: bool
    """It leaves other stored moments behind."""

    @classmethod
    def promised_by(cls, mode: Mode) -> "Audit":
        return cls(
            reads_stored_moments=mode.statistics == "running",
            depends_on_batch_mates=mode.statistics == "batch" or mode.track is not None,
            writes_stored_moments=mode.writes,
        )

    @property
    def statistics(self) -> str:
        return {
            (False, False): "none",
            (False, True): "batch",
            (True, False): "running",
            (True, True): "running+batch",
        }[self.reads_stored_moments, self.depends_on_batch_mates]

    def __str__(self) -> str:
        statistics = {
            "none": "none: each row alone",
            "batch": "batch: moments of these rows",
            "running": "running: stored moments",
            "running+batch": "running+batch: stored moments, and these rows too",
        }[self.statistics]
        mates = "depends on them" if self.depends_on_batch_mates else "stands alone"
        writes = "stored moments" if self.writes_stored_moments else "nothing"
        return f"statistics   {statistics}\nbatch-mates  each row {mates}\nwrites       {writes}"


def audit(
    forward: nn.Module | Callable[[Tensor], Tensor],
    batch: Tensor,
    modules: Sequence[nn.Module] | None = None,
) -> Audit:
    """Run `forward` on variations of `batch` and leave everything as it was.

    `modules` are those whose stored moments the forward may touch; a module's own are known, a
    function's must be given. Stored moments are floating-point buffers that are named mean, var
    or std (`running_mean`, …). Every run begins with the same random state, so a dropout mask that
    is the same for the same shapes is not mistaken for a batch-mate.
    """
    if modules is None:
        if not isinstance(forward, nn.Module):
            raise UsageError(
                "a function does not say whose stored moments it may touch: give audit its modules."
            )
        modules = [forward]
    variations = _with_other_mates(batch)
    with torch.no_grad(), _restored(modules) as restore:

        def run(rows: Tensor, direction: int = 0) -> tuple[Tensor, bool]:
            """The output, and whether moments were written."""
            restore()
            _perturb(modules, direction)
            before = [moment.clone() for moment in _stored_moments(modules).values()]
            output = _checked_output(forward(rows), len(batch))
            after = _stored_moments(modules).values()
            same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
            return output, not same

        output, wrote = run(batch)
        if _differs(output, run(batch)[0]):
            raise UsageError(
                "this forward gives other outputs for the same rows: let it draw from torch's, "
                "numpy's or Python's global random state, or switch its randomness off."
            )
        # Up and down, because one direction alone may silence every ReLU behind it; and moments
        # that this very batch has left behind are written without a change.
        perturbed = [run(batch, direction) for direction in (+1, -1)]
        exchanged = [(kept, run(rows)[0]) for kept, rows in variations]
    return Audit(
        reads_stored_moments=any(_differs(output, other) for other, _ in perturbed),
        depends_on_batch_mates=any(_differs(output[kept], y[kept]) for kept, y in exchanged),
        writes_stored_moments=wrote or any(wrote for _, wrote in perturbed),
    )


def _with_other_mates(batch: Tensor) -> list[tuple[slice, Tensor]]:
    """Each half kept, with copies of its rows in the other's place: all are rows of this batch."""
    if len(batch) < 2:
        raise UsageError("one row has no batch-mates to exchange: give audit two rows or more.")
    half = len(batch) // 2
    variations = []
    for kept, replaced in (
        (slice(0, half), slice(half, None)),
        (slice(half, None), slice(0, half)),
    ):
        rows = batch.clone()
        places = torch.arange(len(rows[replaced])) % len(rows[kept])
        rows[replaced] = batch[kept][places]
        if torch.equal(rows, batch):
            raise UsageError("the rows of this batch are alike: give audit different ones.")
        variations.append((kept, rows))
    return variations


def _stored_moments(modules: Sequence[nn.Module]) -> dict[tuple[int, str], Tensor]:
    """Looked up anew each time: a forward may put another tensor in a buffer's place."""
    return {
        (place, name): buffer
        for place, module in enumerate(modules)
        for name, buffer in module.named_buffers()
        if buffer.is_floating_point() and re.search("mean|var|std", name.rpartition(".")[2])
    }


def _perturb(modules: Sequence[nn.Module], direction: int) -> None:
    """Means move by more than their size, variances by a factor of four; 0 changes nothing."""
    for (_, name), moment in _stored_moments(modules).items():
        if "mean" in name.rpartition(".")[2]:
            moment.add_(direction * (moment.abs() + 1))
        else:
            moment.mul_(4.0**direction)


@contextmanager
def _restored(modules: Sequence[nn.Module]) -> Iterator[Callable[[], None]]:
    """Gives a function that puts buffers, training flags and random states back; used at the end
    too, also when the block raises."""
    parts = [part for module in modules for part in module.modules()]
    buffers = [
        (part, name, buffer, buffer.clone())
        for part in parts
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    flags = [(part, part.training) for part in parts]
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore() -> None:
        for part, name, buffer, value in buffers:
            part._buffers[name] = buffer
            buffer.copy_(value)
        for part, training in flags:
            part.training = training
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        if devices:
            torch.cuda.set_rng_state_all(devices)

    try:
        yield restore
    finally:
        restore()


def _differs(a: Tensor, b: Tensor) -> bool:
    a, b = a.double(), b.double()
    scale = max(float(a.abs().nan_to_num().max()), float(b.abs().nan_to_num().max()))
    return not torch.allclose(a, b, rtol=0, atol=_RELATIVE_CHANGE * scale, equal_nan=True)


def _checked_output(output: Tensor, rows: int) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim == 0 or len(output) != rows:
        raise UsageError(
            "audit needs a forward that returns one tensor with a row for each row of the batch: "
            "wrap it in a function that does."
        )
    return output.clone()
