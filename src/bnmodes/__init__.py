"""BatchNorm forward modes of value-learning agents."""

from bnmodes.audit import Audit, CopyAudit, audit, audit_copy, audit_function
from bnmodes.norm.conversion import mode_of, state_from_torch, state_to_torch
from bnmodes.norm.foreign import forward_mode
from bnmodes.norm.layers import BatchNorm, LayerNorm, ModedModule
from bnmodes.protocol import BATCH, RUNNING, Forward, Mode, Protocol, Setting, explain, preset

__all__ = [
    "BATCH",
    "RUNNING",
    "Audit",
    "BatchNorm",
    "CopyAudit",
    "Forward",
    "LayerNorm",
    "Mode",
    "ModedModule",
    "Protocol",
    "Setting",
    "audit",
    "audit_copy",
    "audit_function",
    "explain",
    "forward_mode",
    "mode_of",
    "preset",
    "state_from_torch",
    "state_to_torch",
]
