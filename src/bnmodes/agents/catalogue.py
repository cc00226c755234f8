"""Every agent by its name: its settings, the paper's arms of it, and the learner itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bnmodes.agents.agent import Agent
from bnmodes.agents.c51 import C51
from bnmodes.agents.c51_config import C51Config, c51_config
from bnmodes.agents.mrq import MRQ
from bnmodes.agents.mrq_config import MRQConfig, mrq_config
from bnmodes.agents.pqn import PQN
from bnmodes.agents.pqn_config import PQNConfig, pqn_config
from bnmodes.agents.td3 import TD3
from bnmodes.agents.td3_config import TD3Config, td3_config
from bnmodes.agents.xqc import XQC
from bnmodes.agents.xqc_config import XQCConfig, xqc_config

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
