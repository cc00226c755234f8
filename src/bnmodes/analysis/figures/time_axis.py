"""The horizontal axis of what is drawn over training: frames on Atari, else decisions."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bnmodes.envs.atari import FRAME_SKIP
from bnmodes.studies.study import Study


def horizontal(study: Study, decisions: Sequence[int]) -> np.ndarray:
    return np.array(decisions) * (FRAME_SKIP / 1e6 if study.is_atari else 1)


def time_unit(study: Study) -> str:
    return "frames (millions)" if study.is_atari else "decisions"


def finish_horizontal(axes: Axes, study: Study) -> None:
    axes.set_xlim(0, float(horizontal(study, [study.total_decisions])[0]))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))


def thousands(value: float, _position: int | None) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"
