"""Every agent by its name: its settings, the paper's arms of it, and the learner itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bnmodes.agents.base import Agent
from bnmodes.agents.c51 import C51, C51Config, c51_config
from bnmodes.agents.mrq import MRQ, MRQConfig, mrq_config
from bnmodes.agents.pqn import PQN, PQNConfig, pqn_config
from bnmodes.agents.td3 import TD3, TD3Config, td3_config
from bnmodes.agents.xqc import XQC, XQCConfig, xqc_config

AgentName = Literal["c51", "pqn", "td3", "xqc", "mrq"]
Config = C51Config | PQNConfig | TD3Config | XQCConfig | MRQConfig


@dataclass(frozen=True)
class AgentKind:
    config: type[Config]
    arm_config: Callable[..., Config]
    """(arm, family of games, weights of stored moments…) → the arm's configuration."""
    build: Callable[..., Agent]
    """(config, games, seed, total decisions, execution) → a new agent."""


AGENTS: dict[AgentName, AgentKind] = {
    "c51": AgentKind(C51Config, c51_config, C51),
    "pqn": AgentKind(PQNConfig, pqn_config, PQN),
    "td3": AgentKind(TD3Config, td3_config, TD3),
    "xqc": AgentKind(XQCConfig, xqc_config, XQC),
    "mrq": AgentKind(MRQConfig, mrq_config, MRQ),
}
