"""Copies of the metrics for TensorBoard and Weights & Biases; the run's file stays the truth."""

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from bnmodes.errors import UsageError
from bnmodes.runs.metrics_file import numbers
from bnmodes.runs.spec import RunSpec

SinkName = Literal["tensorboard", "wandb"]


@runtime_checkable
class Sink(Protocol):
    def write(self, row: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


def open_sinks(names: Sequence[SinkName], spec: RunSpec, folder: Path, decision: int) -> list[Sink]:
    """To go on from `decision`. TensorBoard forgets what a killed run wrote after it; Weights &
    Biases keeps those rows beside their repetition."""
    require_usable(names)
    makers: dict[SinkName, Callable[[RunSpec, Path, int], Sink]] = {
        "tensorboard": TensorBoard,
        "wandb": WeightsAndBiases,
    }
    return [makers[name](spec, folder, decision) for name in dict.fromkeys(names)]


class TensorBoard:
    """Event files in the run's folder; the step is the decision."""

    def __init__(self, spec: RunSpec, folder: Path, decision: int):
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=decision)

    def write(self, row: dict[str, Any]) -> None:
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, row["decision"])

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run named by its hash in the project "bnmodes"; WANDB_MODE=offline keeps it on disk."""

    def __init__(self, spec: RunSpec, folder: Path, decision: int):
        import wandb

        self._run = wandb.init(
            project="bnmodes",
            id=spec.content_hash,
            name=f"{spec.env} {spec.arm} seed {spec.seed}",
            config=spec.to_json(),
            dir=str(folder),
            resume="allow",
        )
        self._run.define_metric("*", step_metric="decision")

    def write(self, row: dict[str, Any]) -> None:
        self._run.log({**numbers(row), "decision": row["decision"]})

    def close(self) -> None:
        self._run.finish()


def require_usable(names: Sequence[SinkName]) -> None:
    for package in names:
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"{package} is not installed: pip install 'bnmodes[{package}]'.")
    if "wandb" in names and os.environ.get("WANDB_MODE") not in ("offline", "disabled"):
        import wandb

        if not wandb.login(prompt=False):
            raise UsageError(
                "wandb knows no account here: run `wandb login`, or set WANDB_MODE=offline."
            )
