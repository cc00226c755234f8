"""The agent of a run, to play or to look at."""

from bnmodes.agents.agent import Agent
from bnmodes.envs.contract import VectorEnv
from bnmodes.errors import DamagedError
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import build_agent
from bnmodes.runs.spec import RunSpec


def load_agent(folder: RunFolder, spec: RunSpec, env: VectorEnv) -> tuple[Agent, list[str]]:
    """The agent of a run, finished or at its newest checkpoint, to play; and notes for the user."""
    agent = build_agent(spec, env)
    networks, notes = folder.networks()
    try:
        agent.load_networks(networks)
    except (RuntimeError, KeyError, TypeError, AttributeError):
        raise DamagedError(
            f"the networks in {folder.path} are not those of its spec.json: put a good copy back, "
            "or delete the run's folder to run it again."
        ) from None
    return agent, notes
