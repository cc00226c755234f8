"""Batches as each role of an agent gets them, drawn for diagnostics with a stream of their own.

The evaluate role has none: its batches exist only during an evaluation, and on acting's it would be
measured as acting is.
"""

import math

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from bnmodes.envs.contract import Observations
from bnmodes.protocol import Role
from bnmodes.replay.ring import Replay
from bnmodes.replay.rollout import Rollout

Batches = Shaped[Tensor, "batches samples ..."]
"""Several batches of observations."""


def replay_batches(
    replay: Replay, batch_size: int, samples: int, acting_group: int, rng: np.random.Generator
) -> dict[Role, Batches]:
    """For a value learner with a replay, by role: minibatches of at least `samples` transitions
    (predict gets their observations, bootstrap their next observations) and acting batches, of
    `acting_group` observations where one environment acts."""
    minibatches = math.ceil(samples / batch_size)
    drawn = replay.sample(minibatches * batch_size, rng)
    return {
        "predict": drawn.obs.unflatten(0, (minibatches, batch_size)),
        "bootstrap": drawn.next_obs.unflatten(0, (minibatches, batch_size)),
        "act": newest_acting_batches(replay, minibatches, acting_group, rng),
    }


def newest_acting_batches(
    replay: Replay, most: int, group_of_one_env: int, rng: np.random.Generator
) -> Batches:
    """Observations of the newest decisions, at most `most` batches, each as it was acted on.

    A single environment acts on one observation at a time, and one has no variance: its newest
    observations are put in random groups of `group_of_one_env`.
    """
    envs, held = len(replay.oldest), replay.transitions_added - int(replay.oldest.max())
    group = min(held, group_of_one_env) if envs == 1 else 1
    decisions = replay.transitions_added - 1 - np.arange(min(most, held // group) * group)
    if envs == 1:
        decisions = rng.permutation(decisions)
    env = np.tile(np.arange(envs), len(decisions))
    return replay.gather(env, decisions.repeat(envs)).obs.unflatten(0, (-1, group * envs))


def rollout_batches(
    rollout: Rollout,
    minibatch_size: int,
    obs: Observations,
    samples: int,
    rng: np.random.Generator,
) -> dict[Role, Batches]:
    """For a value learner with rollouts, by role: shuffled minibatches (predict), the next
    observations of single steps (bootstrap), and `obs`, which is acted on next (act).

    At least `samples` of each, or all that there are. The newest steps may be those of a rollout
    that is not yet full.
    """
    steps, envs = rollout.action.shape
    minibatches = min(steps * envs // minibatch_size, math.ceil(samples / minibatch_size))
    learnt = torch.from_numpy(rng.permutation(steps * envs)[: minibatches * minibatch_size])
    bootstrapped = torch.from_numpy(rng.permutation(steps)[: math.ceil(samples / envs)])
    return {
        "predict": rollout.obs.flatten(0, 1)[learnt].unflatten(0, (minibatches, minibatch_size)),
        "bootstrap": rollout.next_obs[bootstrapped],
        "act": torch.from_numpy(obs)[None].to(rollout.obs.device),
    }
