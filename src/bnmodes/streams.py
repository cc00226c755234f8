"""Everything random comes from one seed, through streams that have names."""

import zlib
from typing import TYPE_CHECKING

import numpy as np

from bnmodes.errors import UsageError

if TYPE_CHECKING:
    import torch


def _sequence(seed: int, name: str, index: int) -> np.random.SeedSequence:
    if seed < 0:
        raise UsageError(f"seed {seed} is negative: choose 0 or a positive whole number.")
    return np.random.SeedSequence([seed, zlib.crc32(name.encode()), index])


def numpy_stream(seed: int, name: str, index: int = 0) -> np.random.Generator:
    return np.random.default_rng(_sequence(seed, name, index))


def torch_stream(seed: int, name: str) -> "torch.Generator":
    import torch  # here: games need no PyTorch, and it takes seconds

    state = int(_sequence(seed, name, 0).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(state)
