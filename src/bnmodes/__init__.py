"""BatchNorm forward modes of value-learning agents: declared, tested, trained.

Everything public is a name of this module, imported when it is first used.
"""

import importlib

_HOMES = {
    "BATCH": "protocol",
    "RUNNING": "protocol",
    "AgentCapabilities": "protocol",
    "AgentKind": "agents.agent",
    "Arm": "studies.study",
    "Audit": "auditing",
    "BatchNorm": "norm.layers",
    "CopyAudit": "auditing",
    "Contrast": "studies.study",
    "Drawing": "analysis.figures.figure",
    "EvaluationSettings": "runs.spec",
    "Forward": "protocol",
    "LayerNorm": "norm.layers",
    "Mode": "protocol",
    "ModedModule": "norm.layers",
    "Protocol": "protocol",
    "Study": "studies.study",
    "SuiteDefaults": "agents.agent",
    "UsageError": "errors",
    "audit": "auditing",
    "audit_copy": "auditing",
    "audit_function": "auditing",
    "draw": "notebook",
    "explain": "protocol",
    "forward_mode": "norm.foreign",
    "mode_of": "norm.conversion",
    "results": "notebook",
    "study_figure": "analysis.figures.figure",
    "state_from_torch": "norm.conversion",
    "state_to_torch": "norm.conversion",
    "run_study": "notebook",
    "train": "notebook",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str):
    # PyTorch takes seconds to import: a name's module is imported when the name is asked for.
    if name not in _HOMES:
        raise AttributeError(f"module 'bnmodes' has no attribute '{name}'")
    globals()[name] = value = getattr(importlib.import_module(f"bnmodes.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
