"""Bounds of settings, written at the fields' types and checked by one function.

batch_size: Count = 32        # a whole number from 1 on
gamma: Fraction = 0.99        # between 0 and 1
learning_rate: Positive = 1e-3
"""

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

from bnmodes.errors import UsageError

MOST = 10**12
"""No whole number of ours is larger, so that all fit into the machine's integers."""


@dataclass(frozen=True)
class Bounds:
    """The numbers that a field may hold."""

    low: int | float
    high: int | float = math.inf
    low_excluded: bool = False

    def refusal(self, value: int | float) -> str | None:
        """What must be, in words, where `value` is outside; None where it is inside."""
        if self.low_excluded and not value > self.low:
            return f"above {self.low:g}"
        if not self.low <= value <= self.high:
            if self.high >= MOST and value < self.low:
                return f"at least {self.low:g}"
            return f"between {self.low:g} and {self.high:,}"
        return None


Count = Annotated[int, Bounds(1, MOST)]
Whole = Annotated[int, Bounds(0, MOST)]
Bins = Annotated[int, Bounds(2, MOST)]
Fraction = Annotated[float, Bounds(0, 1)]
Positive = Annotated[float, Bounds(0, low_excluded=True)]
NotNegative = Annotated[float, Bounds(0)]


def check_bounds(record: Any, prefix: str = "") -> None:
    """Refuse the first number of a (nested) dataclass that is not finite or outside its bounds."""
    hints = get_type_hints(type(record), include_extras=True)
    for field in fields(record):
        name, value = prefix + field.name, getattr(record, field.name)
        if is_dataclass(value):
            check_bounds(value, f"{name}.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name} is {value}, but must be a finite number.")
        elif isinstance(value, int | float):
            for bounds in getattr(hints[field.name], "__metadata__", ()):
                if isinstance(bounds, Bounds) and (must := bounds.refusal(value)):
                    raise UsageError(f"{name} is {value}, but must be {must}.")
