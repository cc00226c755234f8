"""Settings of agents, for tests."""

from typing import Any

from bnmodes.agents.agent import Settings
from bnmodes.agents.registry import arm_settings, find_agent


def settings_of(
    agent: str, arm: str | None = None, suite: str = "minatar", **changes: Any
) -> Settings:
    """Of an agent's arm (or its default one), with changes by dotted names; not validated."""
    return arm_settings(agent, arm or find_agent(agent).default_arm, suite, changes)
