"""How a run is computed: on which device, compiled or not, and where its replay lies.

None of it is part of what a run *is*: its specification and its hash do not know it, and a run that
was stopped may go on with another. Results agree within the tolerance of floats.
"""

import os
import re
import shutil
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from bnmodes.errors import UsageError


@dataclass(frozen=True)
class Execution:
    """How to compute; what is computed stays the same."""

    device: str = "cpu"
    """Where the networks are: cpu, cuda, or one of several accelerators, as cuda:1."""
    compile: bool = False
    """Compile whole updates with torch.compile; the first of them then take a minute or two."""
    replay_memory: Literal["host", "device"] = "host"
    """Where the replay's frames lie: in the machine's memory or in the device's."""

    def validate(self) -> None:
        """Refuse what no machine has."""
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise UsageError(f"device '{self.device}' is unknown: choose cpu, cuda or cuda:N.")
        if self.replay_memory == "device" and not self.on_accelerator:
            raise UsageError("--replay-memory device needs an accelerator: give --device cuda too.")

    def validate_here(self) -> None:
        """Refuse what this machine does not have."""
        self.validate()
        if self.on_accelerator:
            present, asked = torch.cuda.device_count(), torch.device(self.device).index or 0
            if asked >= present:
                raise UsageError(
                    f"device '{self.device}' is not available: PyTorch sees {present or 'no'} "
                    f"accelerator{'s' * (present > 1)} here; use --device cpu."
                )
        if self.compile and not hasattr(torch._dynamo.config, "trace_autograd_ops"):
            raise UsageError(
                f"--compile needs a newer PyTorch than {torch.__version__}, which cannot compile a "
                "gradient together with its step: install 2.13, or leave --compile out."
            )
        if self.compile and not has_compiler():
            raise UsageError(
                "--compile needs g++ and Python's headers (python3-dev), and they are not both "
                "here: install them, or leave --compile out."
            )

    @property
    def on_accelerator(self) -> bool:
        return self.device != "cpu"

    def compiled(self, function: Callable) -> Callable:
        """Of tensors in and tensors out, with shapes that never change.

        On an accelerator the outputs of one call are overwritten by the next call of anything
        compiled: use them before.
        """
        if not self.compile:
            return function
        torch._dynamo.config.trace_autograd_ops = True  # gradients too are part of the graph
        return torch.compile(function, mode="reduce-overhead", fullgraph=True, dynamic=False)

    def to_device(self, tensor: Tensor) -> Tensor:
        """Without waiting for it: from pinned memory, which is kept until the copy is done."""
        if not self.on_accelerator or tensor.device.type != "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def keep_in_place(self, tensor: Tensor) -> None:
        """A compiled function changes it: a promise that it stays where it is in memory.

        Without it the function would not be captured. Those of modules are known to stay.
        """
        if self.compile:
            torch._dynamo.mark_static_address(tensor)

    def number(self, value: float) -> Tensor:
        """One that changes between updates: as a float it would be compiled anew each time."""
        return torch.full((), value, device=self.device)

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """On the device; a clear refusal where it has no room."""
        needed = torch.Size(shape).numel() * dtype.itemsize
        free = free_bytes(self.device)
        if needed <= free:
            # Runs that share the device may ask at the same time.
            with suppress(torch.OutOfMemoryError):
                return torch.zeros(shape, dtype=dtype, device=self.device)
        raise UsageError(
            f"the replay's frames take {needed / 1e9:.1f} GB, but {self.device} has "
            f"{free / 1e9:.1f} GB free: use --replay-memory host, or a smaller replay."
        )


PLAIN = Execution()


def free_bytes(device: str) -> int:
    """Of an accelerator's memory."""
    return torch.cuda.mem_get_info(device)[0]


def has_compiler() -> bool:
    """What torch.compile needs to build its kernels, or the code around them."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return shutil.which(os.environ.get("CXX", "g++")) is not None and headers.exists()
