"""What a network's output means: its level, and how far two outputs of the same batch are apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class Readout(Protocol):
    """Metrics of a network's output, by name; samples are the first axis."""

    def level(self, output: Tensor) -> dict[str, Tensor]:
        """How large the output is."""

    def change(self, output: Tensor, other: Tensor) -> dict[str, Tensor]:
        """How far it is from another output for the same samples."""


@dataclass(frozen=True)
class ValuesOfActions:
    """The output of a value learner: [B, actions], or [B, actions, atoms]."""

    q_values: Callable[[Tensor], Tensor]

    def level(self, output: Tensor) -> dict[str, Tensor]:
        return {"max_q": self.q_values(output).amax(-1).mean()}

    def change(self, output: Tensor, other: Tensor) -> dict[str, Tensor]:
        q, other_q = self.q_values(output), self.q_values(other)
        change = {
            "q_change": (q - other_q).abs().mean(),
            "greedy_changed": (q.argmax(-1) != other_q.argmax(-1)).float().mean(),
        }
        if output.ndim == 3:
            change["total_variation"] = total_variation(output, other)
        return change


@dataclass(frozen=True)
class ValuesOfRows:
    """The output of twin critics, for one action of each sample: [B, 2, 1], or [B, 2, atoms]."""

    q_values: Callable[[Tensor], Tensor]

    def level(self, output: Tensor) -> dict[str, Tensor]:
        return {"mean_q": self.q_values(output).mean()}

    def change(self, output: Tensor, other: Tensor) -> dict[str, Tensor]:
        change = {"q_change": (self.q_values(output) - self.q_values(other)).abs().mean()}
        if output.shape[-1] > 1:
            change["total_variation"] = total_variation(output, other)
        return change


@dataclass(frozen=True)
class ActionLogits:
    """The output of a policy: [B, actions]."""

    def level(self, output: Tensor) -> dict[str, Tensor]:
        return {}

    def change(self, output: Tensor, other: Tensor) -> dict[str, Tensor]:
        return {"greedy_changed": (output.argmax(-1) != other.argmax(-1)).float().mean()}


def total_variation(
    logits: Float[Tensor, "B values atoms"], other_logits: Float[Tensor, "B values atoms"]
) -> Float[Tensor, ""]:
    """Half the sum of |p − p′| over atoms, mean over samples and actions (or twins)."""
    return (logits.softmax(-1) - other_logits.softmax(-1)).abs().sum(-1).mean() / 2
