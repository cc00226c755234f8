"""The horizontal axis of what is drawn over training.

Frames where a decision is several of them, else decisions.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bnmodes.analysis.study_numbers import StudyNumbers


def horizontal(numbers: StudyNumbers, decisions: Sequence[int]) -> np.ndarray:
    frames = numbers.frames_per_decision
    return np.array(decisions) * (frames / 1e6 if frames > 1 else 1)


def time_unit(numbers: StudyNumbers) -> str:
    return "frames (millions)" if numbers.frames_per_decision > 1 else "decisions"


def finish_horizontal(axes: Axes, numbers: StudyNumbers) -> None:
    axes.set_xlim(0, float(horizontal(numbers, [numbers.results.study.total_decisions])[0]))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))


def thousands(value: float, _position: int | float | None) -> str:
    """A tick label: 1.2k, 3M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"
