"""The rollout of an on-policy learner: the last few decisions of every training environment."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import Execution

_PARTS = ("obs", "next_obs", "acting_value", "action", "reward", "terminated", "cut")


class Rollout:
    """Holds `steps` decisions of `envs` environments side by side, in the order of time.

    Observations and acting values are on the device. The rest is small and looked at while acting:
    it is on the host, until `on_device` brings all of it for an update.
    """

    obs: Shaped[Tensor, "steps envs *obs"]
    next_obs: Shaped[Tensor, "steps envs *obs"]
    """The true next observation of each decision, also where an episode ended."""
    acting_value: Float[Tensor, "steps envs"]
    """The largest Q of the forward that acted."""
    action: Int64[Tensor, "steps envs"]
    reward: Float[Tensor, "steps envs"]
    terminated: Bool[Tensor, "steps envs"]
    """The next observation has no value."""
    cut: Bool[Tensor, "steps envs"]
    """The following step belongs to another episode."""

    def __init__(self, env: EnvSpec, steps: int, envs: int, execution: Execution):
        shape, device = (steps, envs), execution.device
        dtype = getattr(torch, env.dtype)
        self.execution = execution
        self.filled = 0
        """Steps stored so far."""
        self.obs = torch.zeros((*shape, *env.obs_shape), dtype=dtype, device=device)
        self.next_obs = torch.zeros((*shape, *env.obs_shape), dtype=dtype, device=device)
        self.acting_value = torch.zeros(shape, device=device)
        self.action = torch.zeros(shape, dtype=torch.int64)
        self.reward = torch.zeros(shape)
        self.terminated = torch.zeros(shape, dtype=torch.bool)
        self.cut = torch.zeros(shape, dtype=torch.bool)

    @property
    def is_full(self) -> bool:
        return self.filled == len(self.obs)

    def cut_here(self) -> None:
        """New episodes begin in every environment before the next decision."""
        if self.filled:
            self.cut[self.filled - 1] = True

    def add_acting(self, obs: Tensor, value: Float[Tensor, " envs"]) -> None:
        """What the environments are about to act on, and the values that the actions came from."""
        self.obs[self.filled], self.acting_value[self.filled] = obs, value

    def add(self, action: Any, reward: Any, step: Step) -> None:
        """What the actions led to; completes a step. Further rows, of test environments, are left
        out; `reward` is the learner's copy, clipped or not."""
        envs = self.action.shape[1]
        for part, rows in (
            (self.action, action),
            (self.reward, reward),
            (self.terminated, step.terminated),
            (self.cut, step.game_over),
        ):
            part[self.filled] = torch.from_numpy(rows[:envs])
        next_obs = torch.from_numpy(step.next_obs[:envs])
        self.next_obs[self.filled] = self.execution.to_device(next_obs)
        self.filled += 1

    def clear(self) -> None:
        """Begin a new rollout; the tensors keep what they hold until it is overwritten."""
        self.filled = 0

    def on_device(self) -> dict[str, Tensor]:
        """Every part by its name."""
        return {name: self.execution.to_device(getattr(self, name)) for name in _PARTS}

    def state(self) -> dict[str, Any]:
        return {"filled": self.filled} | {name: getattr(self, name) for name in _PARTS}

    def load_state(self, state: dict[str, Any]) -> None:
        self.filled = state["filled"]
        for name in _PARTS:
            getattr(self, name).copy_(state[name])
