"""Everything random comes from one seed, through streams that have names."""

import zlib

import numpy as np
import torch

from bnmodes.errors import UsageError


def _sequence(seed: int, name: str, index: int) -> np.random.SeedSequence:
    if seed < 0:
        raise UsageError(f"seed {seed} is negative: choose 0 or a positive whole number.")
    return np.random.SeedSequence([seed, zlib.crc32(name.encode()), index])


def numpy_stream(seed: int, name: str, index: int = 0) -> np.random.Generator:
    return np.random.default_rng(_sequence(seed, name, index))


def torch_stream(seed: int, name: str) -> torch.Generator:
    state = int(_sequence(seed, name, 0).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(state)
