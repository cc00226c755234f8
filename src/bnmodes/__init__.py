"""BatchNorm forward modes of value-learning agents."""

from bnmodes.norm import BatchNorm, LayerNorm, ModedModule, forward_mode
from bnmodes.protocol import BATCH, RUNNING, Forward, Mode, Protocol, Setting, explain, preset

__all__ = [
    "BATCH",
    "RUNNING",
    "BatchNorm",
    "Forward",
    "LayerNorm",
    "Mode",
    "ModedModule",
    "Protocol",
    "Setting",
    "explain",
    "forward_mode",
    "preset",
]
