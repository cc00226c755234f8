"""The audit of a function of (running statistics, batch): for Flax, and for anything else."""

from collections.abc import Callable

import numpy as np

from bnmodes.auditing.evidence import Seen, conclude, gather, perturbed
from bnmodes.auditing.result import Audit
from bnmodes.auditing.trees import Change, arrays, change, copied, leaves, map_arrays
from bnmodes.errors import UsageError


def audit_function(forward: Callable, statistics, batch) -> Audit:
    """Which statistics does `forward` use, if it is a function that is given all it reads?

    `forward(statistics, batch)` returns `(output, new_statistics)`; `new_statistics` may be None
    where it changes none. `statistics` are the running statistics, and all three may be arrays or
    nested dicts, tuples and lists of them. Arrays reach `forward` as numpy's; any kind that numpy
    can read may come back. The first axis of each array of `batch` is the rows. Randomness must be
    the same in each call: fix the key.

        audit_function(
            lambda stats, x: net.apply({"params": params, "batch_stats": stats}, x, train=False),
            ...

    `examples/flax_audit.py` has it in full. The output may hold inner values as well as the last
    one, so that a head of zeros hides nothing.
    """
    given = map_arrays(np.array, statistics)
    rows = map_arrays(np.array, batch)

    def run(batch, direction: int = 0, size: float = 1.0) -> Seen:
        changed = map_arrays(
            lambda moment: _perturbed(moment, direction, size) if direction else moment.copy(),
            given,
        )
        before = leaves(changed)
        result = forward(changed, copied(batch))
        if not isinstance(result, tuple) or len(result) != 2:
            raise UsageError(
                "audit_function needs a forward that returns (output, new statistics): wrap it in "
                "a function that does, with None where it changes none."
            )
        output, after = result
        after = leaves(changed if after is None else after)
        if after.keys() != before.keys():
            raise UsageError(
                "the new statistics are not nested as the given ones are: return them in the same "
                f"dict (given {', '.join(before)}; returned {', '.join(after) or 'none'})."
            )
        return Seen(leaves(output), wrote=change(before, after) is not Change.NONE)

    if not arrays(given):
        raise UsageError("these statistics hold no array: give audit_function the stored ones.")
    found = gather(run, rows)
    reads, why_reads = conclude(found.reads, Change.NONE, "the running statistics")
    mates, why_mates = conclude(found.mates, Change.NONE, "batch-mates")
    reasons = [why_reads, why_mates]
    if found.same_for_all_rows or found.whole_numbers:
        reads, mates = reads or None, mates or None
        reasons.append(blindness(found.same_for_all_rows) if None in (reads, mates) else None)
    return Audit(reads, mates, found.wrote, tuple(r for r in dict.fromkeys(reasons) if r))


def blindness(same_for_all_rows: bool) -> str:
    if same_for_all_rows:
        return "the output is the same for every row, so that it shows nothing: give it weights " \
            "that are not zero, or let the forward return inner values too"  # fmt: skip
    return "the output is whole numbers, which hide small changes: let the forward return the " \
        "values that they are computed from"  # fmt: skip


def _perturbed(moment: np.ndarray, direction: int, size: float) -> np.ndarray:
    return perturbed(moment, direction, size).astype(moment.dtype)
