"""What happens inside an agent's networks while it learns; measuring changes nothing in them.

An agent gives a `RoleForward` for each role and batch. `passes` runs them and records each layer,
`mismatch`, `halves`, `readout` and `plasticity` compute the metrics, `measure` makes one row.
"""

from bnmodes.diagnostics.halves import halves_mismatch
from bnmodes.diagnostics.measure import (
    Row,
    mean_best_q,
    measure_layers,
    measure_roles,
    rounded,
    samples_needed,
)
from bnmodes.diagnostics.passes import passes
from bnmodes.diagnostics.readout import ActionLogits, ValuesOfActions, ValuesOfRows
from bnmodes.diagnostics.role_forward import RoleForward, Transitions
from bnmodes.diagnostics.rows import (
    Batches,
    newest_acting_batches,
    replay_batches,
    rollout_batches,
)

__all__ = [
    "ActionLogits",
    "Batches",
    "RoleForward",
    "Row",
    "Transitions",
    "ValuesOfActions",
    "ValuesOfRows",
    "halves_mismatch",
    "mean_best_q",
    "measure_layers",
    "measure_roles",
    "newest_acting_batches",
    "passes",
    "replay_batches",
    "rollout_batches",
    "rounded",
    "samples_needed",
]
