"""Every run as a dot: where it ended, and a way to its folder. Inline SVG, without a script."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from bnmodes.analysis.figures.style import game_title
from bnmodes.analysis.report.page import folded, number, paragraph, section
from bnmodes.analysis.report.runs import run_link
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers
from bnmodes.envs.registry import canonical_name
from bnmodes.studies.study import Arm

_WIDTH, _ROW, _LETTER = 640, 25, 8
"""Of the picture, of an arm's row, and room for a letter of its name."""
_OPEN = 3
"""Most games whose dots are shown at once; others are folded."""


def dots_section(numbers: StudyNumbers, page_path: Path) -> str:
    """A picture for each game and UTD; AUC of each run, with more in the tooltip."""
    content = [
        paragraph(
            "The AUC of each run (raw return); hover to read its numbers, click or tap to open its "
            "folder.",
            "note",
        )
    ]
    links = {
        (run.arm, canonical_name(run.game), run.seed): run_link(
            numbers.results.root, run, page_path
        )
        for run in numbers.results.study.runs
    }
    for utd in numbers.utds:
        arms = [arm for _, arm in numbers.arms_at(utd)]
        games = numbers.raw(arms[0]).games
        for place, game in enumerate(games):
            title = " ".join(filter(None, (game_title(game), numbers.utd_name(utd))))
            is_open = len(games) <= _OPEN and len(numbers.utds) == 1
            content.append(folded(title, _dots(numbers, arms, place, links), is_open=is_open))
    return section("dots", "Every run", *content)


def _dots(numbers: StudyNumbers, arms: Sequence[Arm], game: int, links: dict) -> str:
    """Rows are arms; all share one horizontal scale."""
    values = {
        arm.name: {m: of(numbers.raw(arm))[game] for m, of in MEASURES.items()} for arm in arms
    }
    everything = np.concatenate([of_arm["auc"] for of_arm in values.values()])
    if np.isnan(everything).all():
        return "<p>No run is finished.</p>"
    low, high = min(0.0, float(np.nanmin(everything))), float(np.nanmax(everything))
    span = (high - low) or 1.0
    left = min(_WIDTH // 2, 12 + _LETTER * max(len(arm.name) for arm in arms))
    scores = numbers.raw(arms[0])
    height = _ROW * len(arms) + 24
    parts = [f'<svg class="dots" viewBox="0 0 {_WIDTH} {height}" role="img">']
    for row, arm in enumerate(arms):
        y = _ROW * row + 14
        parts.append(f'<line class="axis" x1="{left}" x2="{_WIDTH - 12}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="0" y="{y + 5}">{escape(arm.name)}</text>')
        for place, seed in enumerate(scores.seeds):
            found = {measure: of_arm[place] for measure, of_arm in values[arm.name].items()}
            if np.isnan(found["auc"]):
                continue
            x = left + (found["auc"] - low) / span * (_WIDTH - 12 - left)
            said = ", ".join(f"{MEASURE_NAMES[m]} {number(v)}" for m, v in found.items())
            parts.append(
                f'<a href="{links[arm.name, scores.games[game], seed]}/"><circle cx="{x:.1f}" '
                f'cy="{y}" r="6" fill="{numbers.style(arm).colour}" fill-opacity="0.8">'
                f"<title>{escape(arm.name)}, seed {seed}: {said}</title></circle></a>"
            )
    parts.append(f'<text x="{left}" y="{height - 2}">{number(low)}</text>')
    parts.append(f'<text x="{_WIDTH}" y="{height - 2}" text-anchor="end">{number(high)}</text>')
    return "".join([*parts, "</svg>"])
