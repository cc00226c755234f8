"""Agents by name: those of the package, and those of a user's own file, as FILE.py:NAME."""

import importlib
from collections import UserDict
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from bnmodes import plugins
from bnmodes.agents.agent import Agent, AgentKind, Settings
from bnmodes.changes import with_changes
from bnmodes.errors import UsageError
from bnmodes.nearest import did_you_mean
from bnmodes.protocol import Protocol


class _Agents(UserDict[str, Any]):
    """Each agent's module, and PyTorch with it, is imported when the agent is asked for."""

    def __init__(self, *names: str):
        super().__init__()
        self.data = dict.fromkeys(names)

    def __getitem__(self, name: str) -> AgentKind:
        if self.data[name] is None:
            module = importlib.import_module(f"bnmodes.agents.{name}")
            self.data[name] = getattr(module, name.upper())
        return self.data[name]


AGENTS = _Agents("c51", "pqn", "td3", "xqc", "crossq", "mrq")

CHANGED = "-changed"
"""Ends the label of an arm whose defining settings were changed: it is no longer that arm."""


def find_agent(name: str) -> AgentKind:
    """The agent of this name; a user's file must have been named before (see `plugins`)."""
    if plugins.is_reference(name):
        kind = plugins.find(name, "agent")
        if not isinstance(kind, AgentKind):
            raise UsageError(
                f"{name} is no agent, but of type {type(kind).__name__}: name an AgentKind."
            )
        _require_contracts(kind, name)
        return kind
    require_known(name)
    return AGENTS[name]


def require_known(name: str) -> None:
    """Refuse a name that is no agent's of the package."""
    if name not in AGENTS:
        hint = did_you_mean(name, AGENTS)
        raise UsageError(
            f"there is no agent '{name}'{hint}: choose {', '.join(AGENTS)}, or name one of your "
            "own as FILE.py:NAME."
        )


def _require_contracts(kind: AgentKind, name: str) -> None:
    try:
        kind.settings()
    except TypeError as error:
        raise UsageError(
            f"{name}: its settings cannot be made without arguments ({error}): give every field a "
            "default."
        ) from None
    if not is_dataclass(kind.settings):
        raise UsageError(f"{name}: its settings are no dataclass: write @dataclass(frozen=True).")
    contracts: dict[type, Any] = {Agent: kind.build, Settings: kind.settings}
    for contract, offered in contracts.items():
        wanted = [each for each in vars(contract) if not each.startswith("_")]
        missing = [
            each for each in wanted if isinstance(offered, type) and not hasattr(offered, each)
        ]
        if missing:
            raise UsageError(
                f"{name}: {offered.__name__} lacks {', '.join(missing)}, which the contract "
                f"bnmodes.agents.agent.{contract.__name__} asks for."
            )


def arm_settings(
    agent: str, arm: str, suite: str, changes: Mapping[str, Any] | None = None
) -> Settings:
    """The settings of an agent's arm on a suite of games, with changes by dotted names."""
    kind = find_agent(agent)
    if arm not in kind.arms:
        hint = did_you_mean(arm, kind.arms)
        raise UsageError(f"{agent} has no arm '{arm}'{hint}: choose one of {', '.join(kind.arms)}.")
    defaults = dict(kind.suite_defaults(suite).settings) | dict(kind.arms[arm])
    return with_changes(with_changes(kind.settings(), defaults), changes or {})


def arm_label(agent: str, arm: str, suite: str, settings: Settings) -> str:
    """The arm's name, with "-changed" where more than update weights of what defines it differs."""
    own = arm_settings(agent, arm, suite)
    same = all(
        _without_weights(getattr(own, name)) == _without_weights(getattr(settings, name))
        for name in find_agent(agent).arm_fields
    )
    return arm if same else arm + CHANGED


def _without_weights(value: Any) -> Any:
    """A protocol, with only whether its forwards update and track: an arm at another momentum is
    still that arm."""
    if not isinstance(value, Protocol):
        return value
    return [
        (role, asdict(f) | {"track": f.track is None, "update": f.update is None})
        for role, f in value.roles().items()
        if role != "calibrate"  # a switch of its own, which is not part of what defines an arm
    ]
