"""Batches as each role really gets them, drawn for diagnostics with a stream of their own.

The evaluate role has none: its rows exist only while it plays, and on acting's it would be measured
as acting is.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from bnmodes.diagnostics import Batches
from bnmodes.envs.contract import Observations
from bnmodes.protocol import Role
from bnmodes.replay.ring import Replay


def replay_batches(
    replay: Replay, batch_size: int, rows: int, rng: np.random.Generator
) -> dict[Role, Batches]:
    """Of an agent with a replay: minibatches of at least `rows` transitions, and acting rows."""
    minibatches = math.ceil(rows / batch_size)
    drawn = replay.sample(minibatches * batch_size, rng)
    return {
        "predict": drawn.obs.unflatten(0, (minibatches, batch_size)),
        "bootstrap": drawn.next_obs.unflatten(0, (minibatches, batch_size)),
        "act": newest_acting_batches(replay, minibatches, batch_size, rng),
    }


def newest_acting_batches(
    replay: Replay, most: int, group_of_one_env: int, rng: np.random.Generator
) -> Batches:
    """The rows of the newest decisions, together as they were acted on. A single environment's
    rows have no batch-mates and no moments: they stand in random groups of the newest ones."""
    envs, held = len(replay.oldest), replay.transitions_added - int(replay.oldest.max())
    group = min(held, group_of_one_env) if envs == 1 else 1
    decisions = replay.transitions_added - 1 - np.arange(min(most, held // group) * group)
    if envs == 1:
        decisions = rng.permutation(decisions)
    env_indices = np.tile(np.arange(envs), len(decisions))
    return replay.gather(env_indices, decisions.repeat(envs)).obs.unflatten(0, (-1, group * envs))


def rollout_batches(
    rollout: Mapping[str, Tensor],
    minibatch_size: int,
    obs: Observations,
    rows: int,
    rng: np.random.Generator,
) -> dict[Role, Batches]:
    """Of an agent with rollouts, whose newest steps may be those of the rollout under way.

    `obs` is the acting batch; of each other role at least `rows` rows, or all that there are.
    """
    steps, envs = rollout["action"].shape
    minibatches = min(steps * envs // minibatch_size, math.ceil(rows / minibatch_size))
    learnt = torch.from_numpy(rng.permutation(steps * envs)[: minibatches * minibatch_size])
    bootstrapped = torch.from_numpy(rng.permutation(steps)[: math.ceil(rows / envs)])
    return {
        "predict": rollout["obs"].flatten(0, 1)[learnt].unflatten(0, (minibatches, minibatch_size)),
        "bootstrap": rollout["next_obs"][bootstrapped],
        "act": torch.from_numpy(obs)[None].to(rollout["obs"].device),
    }
