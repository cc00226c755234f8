"""What agents share whose every role runs a network with a value for each action: its building,
greedy actions, and the forwards that `audit` and diagnostics ask for."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from bnmodes.agents.settings import AgentSettings
from bnmodes.agents.shared import forward_as
from bnmodes.diagnostics import (
    Batches,
    RoleForward,
    Row,
    Transitions,
    ValuesOfActions,
    measure_layers,
    measure_roles,
    rounded,
)
from bnmodes.diagnostics.role_forward import Inputs
from bnmodes.envs.contract import EnvSpec, Observations
from bnmodes.execution import Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.networks.layers import Scheme
from bnmodes.networks.norms import NormSettings
from bnmodes.networks.value import QNetwork
from bnmodes.protocol import Role
from bnmodes.streams import torch_stream

_OF_NEXT_OBS = ("bootstrap", "calibrate")


def value_network(
    torso: str,
    norm: NormSettings,
    env: EnvSpec,
    head_shape: tuple[int, ...],
    seed: int,
    execution: Execution,
    head_scheme: Scheme = "kaiming",
) -> QNetwork:
    """A new network with this torso and norm, on the device."""
    return QNetwork(
        env.obs_shape,
        head_shape,
        torso,
        norm,
        env.pixel_scale,
        torch_stream(seed, "network"),
        head_scheme,
    ).to(execution.device)


class ValueAgent:
    """Mixed into agents whose every role runs one `QNetwork` on observations. A subclass writes
    `q_values`."""

    settings: AgentSettings
    networks: dict[str, QNetwork]
    execution: Execution

    def forward(self, role: Role, obs: Inputs) -> Tensor:
        """The network's output, with the parameters and the mode that the role declares."""
        return forward_as(role, self.settings.protocol, self.networks, obs)

    def q_values(self, output: Tensor) -> Float[Tensor, "B actions"]:
        """The value of each action, from the network's output."""
        raise NotImplementedError

    def greedy(self, obs: Observations) -> Int64[np.ndarray, " envs"]:
        return self.best_actions("evaluate", obs)

    @torch.no_grad()
    def best_actions(
        self, role: Literal["act", "evaluate"], obs: Observations
    ) -> Int64[np.ndarray, " envs"]:
        output = self.forward(role, self.execution.to_device(torch.from_numpy(obs)))
        return self.q_values(output).argmax(-1).cpu().numpy()

    def role_forwards(
        self, transitions: Transitions, rng: torch.Generator
    ) -> dict[Role, RoleForward]:
        """See `agents.agent.DeclaresRoles`; no role here needs random numbers."""
        return {
            role: self._role_forward(
                role, transitions.next_obs if role in _OF_NEXT_OBS else transitions.obs
            )
            for role in self.settings.protocol.roles()
        }

    def _role_forward(self, role: Role, obs: Tensor) -> RoleForward:
        declared = getattr(self.settings.protocol, role)
        return RoleForward(
            mode=declared,
            run=lambda obs: self.forward(role, obs),
            inputs=obs,
            networks=(declared.params,),
            network=self.networks[declared.params],
            readout=ValuesOfActions(self.q_values),
        )

    def measured(
        self,
        batches: Mapping[Role, Batches],
        optimizer: Optimizer,
        rng: np.random.Generator,
    ) -> Row:
        """One row of diagnostics, on several batches of observations for each role."""
        roles = {
            role: [self._role_forward(role, obs) for obs in each] for role, each in batches.items()
        }
        row = measure_roles(roles, rng)
        return rounded(row | measure_layers([self.networks["online"]], [optimizer]))
