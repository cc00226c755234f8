"""Adam, AdamW and RAdam as part of an update that is compiled whole.

The arithmetic is PyTorch's own functions. Its optimizer objects end a compiled graph at their step,
so their state is kept here: then loss, gradients, step and what follows are one graph.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.radam import radam

from bnmodes.execution import PLAIN, Execution

Rule = Literal["adam", "adamw", "radam"]
BETAS = (0.9, 0.999)
"""Adam's weights of the old means of gradients and of their squares, where nothing else is said."""


class Optimizer:
    """Holds parameters and the moments of their gradients; `descend` is one step."""

    def __init__(
        self,
        rule: Rule,
        parameters: Iterable[Tensor],
        learning_rate: float,
        execution: Execution = PLAIN,
        *,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = BETAS,
    ):
        self.rule: Rule = rule
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.epsilon, self.weight_decay, self.betas = epsilon, weight_decay, betas
        self.execution = execution
        self.gradient_means = [torch.zeros_like(p) for p in self.parameters]
        self.gradient_squares = [torch.zeros_like(p) for p in self.parameters]
        # Where nothing is compiled, RAdam decides by the number of steps: on the host.
        on_host = rule == "radam" and not execution.compile
        self.steps = [
            torch.zeros((), device="cpu" if on_host else p.device) for p in self.parameters
        ]
        for tensor in (*self.gradient_means, *self.gradient_squares, *self.steps):
            execution.keep_in_place(tensor)

    def at(self, learning_rate: float) -> float | Tensor:
        """The next step's rate, for `descend`: as a float it would be compiled anew each time."""
        self.learning_rate = learning_rate
        return self.execution.number(learning_rate) if self.execution.compile else learning_rate

    def descend(
        self, loss: Tensor, learning_rate: float | Tensor, clip: float | None = None
    ) -> Tensor | None:
        """One step down the gradient of the loss; returns the gradient's norm if it is clipped."""
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            norm = divisor = None
            if clip is not None:
                norm = nn.utils.get_total_norm(gradients)
                divisor = ((norm + 1e-6) / clip).clamp(min=1.0)
            self._step([*map(_laid_out_as, gradients, self.parameters)], learning_rate, divisor)
        return norm

    def _step(
        self, gradients: list[Tensor], learning_rate: float | Tensor, divisor: Tensor | None
    ) -> None:
        """One step by the gradients over `divisor`."""
        epsilon, fused = self.epsilon, not self.execution.compile
        if self.rule == "radam":
            fused &= not self.execution.on_accelerator  # its steps are counted on the host
            rectified = rectification(int(self.steps[0]) + 1, self.betas[1]) if fused else None
            if rectified is None:
                self._radam(_divided(gradients, divisor), learning_rate)
                return
            learning_rate, epsilon = learning_rate * rectified[0], epsilon / rectified[1]
        if not fused:
            gradients, divisor = _divided(gradients, divisor), None
        adam(
            self.parameters,
            gradients,
            self.gradient_means,
            self.gradient_squares,
            max_exp_avg_sqs=[],
            amsgrad=False,
            decoupled_weight_decay=self.rule == "adamw",
            fused=fused,
            grad_scale=divisor,
            **self._shared(learning_rate, epsilon, foreach=not fused),
        )

    def _radam(self, gradients: list[Tensor], learning_rate: float | Tensor) -> None:
        moments = (self.gradient_means, self.gradient_squares)
        shared = self._shared(learning_rate, self.epsilon, foreach=True)
        radam(self.parameters, gradients, *moments, **shared)

    def _shared(
        self, learning_rate: float | Tensor, epsilon: float, foreach: bool
    ) -> dict[str, Any]:
        """Arguments that PyTorch's adam and radam have in common."""
        return {
            "state_steps": self.steps,
            "foreach": foreach,
            "capturable": self.execution.compile,
            "beta1": self.betas[0],
            "beta2": self.betas[1],
            "lr": learning_rate,
            "weight_decay": self.weight_decay,
            "eps": epsilon,
            "maximize": False,
        }

    def moments(self, parameter: Tensor) -> tuple[float, Tensor, Tensor]:
        """Steps so far, and the means of its gradient and of its square (both biased to 0)."""
        (index,) = (i for i, own in enumerate(self.parameters) if own is parameter)
        steps = float(self.steps[index])
        return steps, self.gradient_means[index], self.gradient_squares[index]

    @property
    def has_stepped(self) -> bool:
        return bool(self.steps[0] > 0)

    def state(self) -> list[dict[str, Tensor]]:
        """In the parameters' order, under PyTorch's names."""
        rows = zip(self.steps, self.gradient_means, self.gradient_squares, strict=True)
        return [{"step": s, "exp_avg": mean, "exp_avg_sq": square} for s, mean, square in rows]

    def load_state(self, state: Sequence[dict[str, Tensor]]) -> None:
        for mine, saved in zip(self.state(), state, strict=True):
            for name, tensor in mine.items():
                tensor.copy_(saved[name])


def rectification(step: int, beta2: float) -> tuple[float, float] | None:
    """What makes a step of Adam one of RAdam: a factor of its learning rate, and a divisor of its
    ε, which RAdam adds before the correction of the second moment's bias. None in the first steps,
    where RAdam leaves the second moment out.

    So RAdam is computed by Adam's fused kernel: PyTorch's own takes 20 kernels a parameter.
    """
    decay, longest = beta2**step, 2 / (1 - beta2) - 1
    length = longest - 2 * step * decay / (1 - decay)
    if length <= 5:
        return None
    ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return math.sqrt(ratio), math.sqrt(1 - decay)


def _divided(gradients: list[Tensor], divisor: Tensor | None) -> list[Tensor]:
    return gradients if divisor is None else [gradient / divisor for gradient in gradients]


def _laid_out_as(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient with the parameter's memory layout: the fused kernel needs equal strides."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
