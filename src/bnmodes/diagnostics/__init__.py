"""What happens inside an agent's networks while it learns; measuring changes nothing in them."""

from bnmodes.diagnostics.halves import halves_mismatch
from bnmodes.diagnostics.measure import (
    Batches,
    Row,
    measure,
    measure_roles,
    rounded,
    rows_needed,
)
from bnmodes.diagnostics.passes import RoleForward, passes
from bnmodes.diagnostics.plasticity import layer_motion
from bnmodes.diagnostics.readout import ActionLogits, ValuesOfRows

__all__ = [
    "ActionLogits",
    "Batches",
    "RoleForward",
    "Row",
    "ValuesOfRows",
    "halves_mismatch",
    "layer_motion",
    "measure",
    "measure_roles",
    "passes",
    "rounded",
    "rows_needed",
]
