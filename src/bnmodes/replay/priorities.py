"""Which transitions are drawn how often: LAP, prioritised replay without importance weights.

A transition is drawn in proportion to max(1, |δ|)^0.4. The floor of 1 is where its Huber loss turns
from square to linear: below it all are drawn alike, which is what makes weights unnecessary.

Fujimoto, Meger, Precup: "An Equivalence between Loss Functions and Non-Uniform Sampling in
Experience Replay", NeurIPS 2020, arXiv:2007.06049.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from bnmodes.replay.ring import Index, Replay

EXPONENT = 0.4
FLOOR = 1.0


class Priorities:
    """One number for each place of the replay's rings; 0 where no transition is held."""

    def __init__(self, replay: Replay):
        self.replay = replay
        self.values = np.zeros(replay.action.shape, np.float32)
        self.largest = FLOOR**EXPONENT
        """Ever given; a new transition gets it, so that each is soon learnt from."""
        self._oldest = replay.oldest.copy()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def added(self) -> None:
        """After each `Replay.add`: the new transitions come, and those no longer held go."""
        for env_index in np.flatnonzero(self.replay.oldest > self._oldest):
            gone = np.arange(self._oldest[env_index], self.replay.oldest[env_index])
            self.values[gone % len(self), env_index] = 0
        self._oldest[:] = self.replay.oldest
        newest = self.replay.transitions_added - 1
        self.values[newest % len(self)] = np.where(newest >= self._oldest, self.largest, 0)

    def sample(self, batch_size: int, rng: np.random.Generator) -> tuple[Index, Index]:
        """Environments and transitions, in proportion to their priority, with replacement."""
        added = self.replay.transitions_added
        ends = np.cumsum(self.values[:added], dtype=np.float64)
        drawn = np.searchsorted(ends, rng.random(batch_size) * ends[-1], side="right")
        place, env_index = np.divmod(drawn, self.values.shape[1])
        return env_index, added - 1 - (added - 1 - place) % len(self)

    def update(
        self, env_index: Index, transition: Index, td_error: Float[np.ndarray, " batch"]
    ) -> None:
        # A network that diverged must not make the whole sampling undefined.
        known = np.where(np.isfinite(td_error), td_error, FLOOR)
        priority = np.maximum(known, FLOOR) ** EXPONENT
        self.values[transition % len(self), env_index] = priority
        self.largest = max(self.largest, float(priority.max()))

    def state(self) -> dict[str, Any]:
        return {"values": self.values[: self.replay.transitions_added], "largest": self.largest}

    def load_state(self, state: dict[str, Any]) -> None:
        """After the replay's own."""
        self.values[: len(state["values"])] = state["values"]
        self.largest = state["largest"]
        self._oldest[:] = self.replay.oldest
