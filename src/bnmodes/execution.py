"""How a run is computed: on which device, compiled or not, and where its replay is stored.

Execution options do not enter a run's specification and hash, and may change when a stopped run is
resumed. Results agree within floating-point tolerance.
"""

import ctypes
import os
import platform
import re
import shutil
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bnmodes.errors import UsageError

if TYPE_CHECKING:  # at run time in the methods: commands that read options only need no PyTorch
    import torch


@dataclass(frozen=True)
class Execution:
    """Execution options: they change how a run is computed, not what."""

    device: str = "cpu"
    """Device of the networks: cpu, cuda, or one of several accelerators, as cuda:1."""
    compile: bool = False
    """Compile whole updates with torch.compile; the first of them then take a minute or two."""
    replay_memory: Literal["host", "device"] = "host"
    """Memory that holds the replay's frames: the machine's or the device's."""

    def validate(self) -> None:
        """Refuse what no machine has."""
        if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", self.device):
            raise UsageError(f"device '{self.device}' is unknown: choose cpu, cuda or cuda:N.")
        if self.replay_memory == "device" and not self.on_accelerator:
            raise UsageError("--replay-memory device needs an accelerator: give --device cuda too.")

    def validate_here(self) -> None:
        """Refuse what this machine does not have."""
        self.validate()
        if not self.on_accelerator and not self.compile:
            return
        import torch

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
        """`function`, compiled if the options say so; its tensors must keep their shapes.

        On an accelerator the outputs of one call are overwritten by the next call of any compiled
        function: read them before.
        """
        if not self.compile:
            return function
        import torch

        torch._dynamo.config.trace_autograd_ops = True  # gradients too are part of the graph
        return torch.compile(function, mode="reduce-overhead", fullgraph=True, dynamic=False)

    def to_device(self, tensor: "torch.Tensor") -> "torch.Tensor":
        """The tensor on the device, copied from pinned memory without waiting for the copy."""
        if not self.on_accelerator or tensor.device.type != "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def keep_in_place(self, tensor: "torch.Tensor") -> None:
        """Mark a tensor that a compiled function changes as having a static address.

        Otherwise CUDA-graph capture is skipped. Parameters and buffers are marked already.
        """
        if self.compile:
            import torch

            torch._dynamo.mark_static_address(tensor)

    def number(self, value: float) -> "torch.Tensor":
        """A scalar as a 0-d tensor on the device: a changing Python float would recompile."""
        import torch

        return torch.full((), value, device=self.device)

    def zeros(self, shape: tuple[int, ...], dtype: "torch.dtype") -> "torch.Tensor":
        """Zeros on the device; raises UsageError where its memory is too small."""
        import torch

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


def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, up to 32 MiB a piece, for its next request.

    Returned to the system, the activations of every update would be mapped and cleared anew: 7 to
    15% of an update at Atari's size. Where the C library is not glibc, nothing changes.
    """
    trim_threshold, mmap_threshold = -1, -3  # names of glibc's malloc.h
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(mmap_threshold, 32 * 2**20)
        mallopt(trim_threshold, 2**31 - 1)


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's model as the system names it, or else its architecture."""
    with suppress(OSError):
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "unknown"


def free_bytes(device: str) -> int:
    """Free bytes of an accelerator's memory."""
    import torch

    return torch.cuda.mem_get_info(device)[0]


def has_compiler() -> bool:
    """Whether torch.compile finds a C++ compiler and Python's headers."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return shutil.which(os.environ.get("CXX", "g++")) is not None and headers.exists()
