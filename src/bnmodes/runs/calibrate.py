"""Running statistics re-estimated from fresh rollouts, so that a batch agent can act alone.

An agent that acts with batch statistics cannot play in one environment: a single row has none. What
training left as running statistics is another population's, because predict wrote them. Here they
are estimated anew, for the evaluate role only: the rows are observations of games that are played
as while training, and all of them are one batch.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from bnmodes.agents.agent import Agent
from bnmodes.envs.contract import VectorEnv
from bnmodes.envs.registry import make_env
from bnmodes.errors import UsageError
from bnmodes.files import refuse_link
from bnmodes.protocol import (
    BATCH,
    RUNNING,
    AgentCapabilities,
    Forward,
    Mode,
    Population,
    Protocol,
    Role,
)
from bnmodes.runs import checkpoint
from bnmodes.runs.evaluate import play_games
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import build_agent
from bnmodes.runs.spec import RunSpec
from bnmodes.streams import numpy_stream

_DECISIONS = 1_000
"""Decisions of each environment that the rows are drawn from."""
Rows = dict[Role, dict[Population, int]]
Say = Callable[[str], None]
"""Gets what is done at the moment and how far it is, in words."""
_REPLACE = Mode(statistics="batch", update=1.0)


@dataclass(frozen=True)
class Calibration:
    """A calibrated agent's protocol, and what it returns with each source of its statistics."""

    protocol: Protocol
    offered: AgentCapabilities
    returns: dict[str, Float[np.ndarray, " games"]]
    """By source: "calibrated", "running" (left by training), and "batch" of an evaluation."""
    notes: list[str]


def calibrate(
    folder: RunFolder, rows: int, games: int, seed: int, say: Say = lambda _: None
) -> Calibration:
    """Re-estimate, keep the networks in the run's folder, and play with each source.

    All sources play the same games: environments and random actions are seeded alike.
    """
    spec = folder.spec()
    declared = spec.settings.protocol
    if declared.evaluate.statistics == "none":
        raise UsageError(f"{folder.path} has no BatchNorm: each row stands alone already.")
    for name, number in (("rows", rows), ("games", games)):
        if number < 2:
            raise UsageError(f"{name} is {number}, but must be at least 2.")
    networks, notes = folder.networks()
    env = _games(spec, _rollout_envs(spec), seed, "calibration games")
    agent = build_agent(spec, env)
    returns = {}
    for source, mode in (("running", RUNNING), ("batch", BATCH)):
        agent.load_networks(networks)
        returns[source] = _play(agent, spec, mode, games, seed, _said_of(say, source))
    agent.load_networks(networks)
    observations = _rollout_rows(agent, env, spec, rows, seed, say)
    with _evaluating(agent, _REPLACE):
        agent.greedy(observations)
    calibrated = {name: dict(net.state_dict()) for name, net in agent.networks.items()}
    refuse_link(folder.path / "calibrated")
    (folder.path / "calibrated").mkdir(exist_ok=True)
    checkpoint.save(folder.path / "calibrated", {"networks": calibrated})
    agent.load_networks(calibrated)
    said = _said_of(say, "calibrated")
    returns["calibrated"] = _play(agent, spec, RUNNING, games, seed, said)
    protocol = calibrated_protocol(declared)
    offered = spec.settings.capabilities(spec.evaluation.episodes)
    alone: Rows = {"evaluate": {"evaluation": 1}, "calibrate_evaluate": {"fresh-rollout": rows}}
    offered = replace(offered, rows={**offered.rows, **alone})
    protocol.validate(offered)
    return Calibration(protocol, offered, returns, notes)


def calibrated_protocol(declared: Protocol) -> Protocol:
    """Evaluate reads running statistics that only its own calibration writes."""
    return replace(
        declared,
        evaluate=Forward.of(RUNNING, declared.evaluate.params, "evaluation"),
        calibrate_evaluate=Forward.of(_REPLACE, declared.evaluate.params, "fresh-rollout"),
    )


def calibrated_agent(folder: RunFolder, env: VectorEnv) -> Agent:
    """The agent with what `calibrate` kept; its rows stand alone, so that one environment does."""
    loaded = checkpoint.load(folder.path / "calibrated")
    if loaded is None:
        raise UsageError(f"{folder.path} is not calibrated: run `bnmodes calibrate` on it first.")
    spec = folder.spec()
    settings: Any = spec.settings
    settings = replace(settings, protocol=calibrated_protocol(settings.protocol))
    agent = build_agent(replace(spec, settings=settings), env)
    agent.load_networks(loaded.tree["networks"])
    return agent


def _rollout_envs(spec: RunSpec) -> int:
    """As many as act together while training; of a single one, as many as are evaluated."""
    return spec.settings.env_rows if spec.settings.env_rows > 1 else spec.evaluation.episodes


def _games(spec: RunSpec, envs: int, seed: int, name: str, group: int = 0) -> VectorEnv:
    env_seed = int(numpy_stream(seed, name, group).integers(2**31 - 1000))
    return make_env(spec.env, envs, env_seed, new_life=spec.new_life)


@contextmanager
def _evaluating(agent: Any, mode: Mode) -> Iterator[None]:
    """Let the evaluate role run in another mode."""
    if not hasattr(agent, "settings"):
        raise UsageError(
            "this agent does not keep its settings as `settings`: cannot calibrate it."
        )
    settings = agent.settings
    evaluate = Forward.of(mode, settings.protocol.evaluate.params, "evaluation")
    agent.settings = replace(settings, protocol=replace(settings.protocol, evaluate=evaluate))
    try:
        yield
    finally:
        agent.settings = settings


def _said_of(say: Say, source: str) -> Say:
    return lambda how_far: say(f"{source} statistics: {how_far}")


def _play(
    agent: Agent, spec: RunSpec, mode: Mode, games: int, seed: int, say: Say
) -> Float[np.ndarray, " games"]:
    returns = []
    with _evaluating(agent, mode):
        for group in range(-(-games // spec.evaluation.episodes)):
            say(f"{group * spec.evaluation.episodes} of {games} games played")
            env = _games(spec, spec.evaluation.episodes, seed, "games", group)
            rng = numpy_stream(seed, "actions", group)
            epsilon = spec.evaluation.epsilon
            returns.append(play_games(agent.greedy, env, epsilon, rng, lambda: None))
    return np.concatenate(returns)[:games].astype(np.float64)


def _rollout_rows(
    agent: Agent, env: VectorEnv, spec: RunSpec, rows: int, seed: int, say: Say
) -> Shaped[np.ndarray, "rows *obs"]:
    """Observations drawn evenly from games that are played with the act role's statistics."""
    rng, obs = numpy_stream(seed, "calibration actions"), env.reset()
    kept, keys = obs[:0], np.zeros(0)
    played, steps = 0, max(_DECISIONS, -(-rows // env.num_envs))
    with _evaluating(agent, Mode(statistics=spec.settings.protocol.act.statistics)):
        while played < steps:
            if played % 50 == 0:
                say(f"fresh rows: {played:,} of {steps:,} decisions of {env.num_envs} environments")
            # The rows with the smallest random keys are an even draw from all that were seen.
            kept, keys = np.concatenate([kept, obs]), np.append(keys, rng.random(env.num_envs))
            if len(keys) > 2 * rows:
                first = np.argpartition(keys, rows)[:rows]
                kept, keys = kept[first], keys[first]
            explore = rng.random(env.num_envs) < spec.evaluation.epsilon
            random_actions = rng.integers(env.spec.num_actions, size=env.num_envs)
            obs = env.step(np.where(explore, random_actions, agent.greedy(obs))).obs
            played += 1
    return kept[np.argsort(keys)[:rows]]
