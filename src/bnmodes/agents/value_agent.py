"""What agents share whose every role runs a network with a value for each action: its building,
greedy actions, and the forwards that `audit` and diagnostics ask for."""

from collections.abc import Mapping
from itertools import cycle
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from bnmodes.agents.settings import AgentSettings
from bnmodes.agents.shared import forward_as, mode_with, needs_spare_rows
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

    def forward(self, role: Role, obs: Tensor, companions: Tensor | None = None) -> Tensor:
        """The network's output, with the parameters and the mode that the role declares.

        `companions` are the rows that the role's statistics need besides its own: the other half of
        a joined batch, replayed rows beside the acting one, or the rows of the declared moments.
        """
        if companions is None:
            return forward_as(role, self.settings.protocol, self.networks, obs)
        declared, count = self.settings.protocol.forward(role), len(companions)
        batch = torch.cat([companions, obs])
        return self.networks[declared.params](batch, mode_with(declared, count))[count:]

    def companions(self, role: Role, paired: Tensor, spare: Tensor | None) -> Tensor | None:
        """The rows that the role declares besides its own, None for most roles.

        `paired` are the other halves of the role's transitions (observations for bootstrap, next
        observations for predict), `spare` further rows that were drawn for the role.
        """
        declared = self.settings.protocol.forward(role)
        if declared.population == "joined" or declared.moments == "partner":
            return paired
        return spare if needs_spare_rows(declared) else None

    def q_values(self, output: Tensor) -> Float[Tensor, "B actions"]:
        """The value of each action, from the network's output."""
        raise NotImplementedError

    def spare_rows(self, role: Role, rng: np.random.Generator) -> Tensor | None:
        """Further rows, as many as the role's statistics are declared to need; None for most."""
        return None

    def acting_companions(self) -> Tensor | None:
        """Rows beside those that are acted on; None: there are none."""
        return None

    def greedy(self, obs: Observations) -> Int64[np.ndarray, " envs"]:
        return self.best_actions("evaluate", obs)

    @torch.no_grad()
    def best_actions(
        self, role: Literal["act", "evaluate"], obs: Observations
    ) -> Int64[np.ndarray, " envs"]:
        rows = self.execution.to_device(torch.from_numpy(obs))
        companions = self.acting_companions() if role == "act" else None
        return self.q_values(self.forward(role, rows, companions)).argmax(-1).cpu().numpy()

    def role_forwards(
        self, transitions: Transitions, rng: torch.Generator
    ) -> dict[Role, RoleForward]:
        """See `agents.agent.DeclaresRoles`; no role here needs random numbers."""
        forwards = {}
        for role, declared in self.settings.protocol.roles().items():
            paired, obs = transitions.obs, transitions.next_obs
            if role not in _OF_NEXT_OBS:
                paired, obs = obs, paired
            spare = len(obs) // 2 if needs_spare_rows(declared) else 0
            companions = self.companions(role, paired, obs[:spare])
            forwards[role] = self._role_forward(role, obs[spare:], companions)
        return forwards

    def _role_forward(self, role: Role, obs: Tensor, companions: Tensor | None) -> RoleForward:
        declared = self.settings.protocol.forward(role)
        count = 0 if companions is None else len(companions)

        def run(batch: Inputs) -> Tensor:
            """Companions have no output of their own: zeros stand in its place."""
            assert isinstance(batch, Tensor)
            if count == 0:
                return self.forward(role, batch)
            own = self.forward(role, batch[count:], batch[:count])
            return torch.cat([own.new_zeros(count, *own.shape[1:]), own])

        return RoleForward(
            mode=mode_with(declared, count),
            run=run,
            inputs=obs if companions is None else torch.cat([companions, obs]),
            networks=(declared.params,),
            network=self.networks[declared.params],
            readout=ValuesOfActions(self.q_values),
            kept=slice(count, None),
        )

    def measured(
        self,
        batches: Mapping[Role, Batches],
        optimizer: Optimizer,
        rng: np.random.Generator,
    ) -> Row:
        """One row of diagnostics, on several batches of observations for each role. Batches of
        predict and bootstrap with the same number are of the same transitions."""
        roles = {}
        for role, each in batches.items():
            paired = batches["predict" if role == "bootstrap" else "bootstrap"]
            roles[role] = [
                self._role_forward(
                    role, obs, self.companions(role, partner, self.spare_rows(role, rng))
                )
                for obs, partner in zip(each, cycle(paired))
            ]
        row = measure_roles(roles, rng)
        return rounded(row | measure_layers([self.networks["online"]], [optimizer]))
