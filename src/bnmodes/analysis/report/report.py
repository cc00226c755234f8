"""One HTML page for a study: what was asked, what it shows, what ran, and how to check it."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from bnmodes.analysis.arms import series_of
from bnmodes.analysis.figures.figure import Drawing, draw_all
from bnmodes.analysis.figures.style import Format, render
from bnmodes.analysis.report.dots import dots_section
from bnmodes.analysis.report.glossary import glossary_section
from bnmodes.analysis.report.page import facts, page, paragraph, picture, section
from bnmodes.analysis.report.runs import protocols_section, runs_section, settings_section
from bnmodes.analysis.report.sections import (
    aggregates_section,
    completeness_section,
    contrasts_section,
    games_section,
    headline_paragraph,
    summary_section,
)
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.analysis.wording import counted
from bnmodes.files import replacing
from bnmodes.studies.study import Arm, Study

_SECTIONS = {
    "summary": "Summary",
    "contrasts": "Contrasts",
    "figures": "Figures",
    "dots": "Runs at a glance",
    "aggregates": "Aggregates",
    "games": "Games",
    "completeness": "Completeness",
    "protocols": "Protocols",
    "settings": "Settings",
    "runs": "Files",
    "words": "Words",
}
_FIRST = "bars"
"""The drawing that stands above everything else."""


def write_report(numbers: StudyNumbers, path: Path, formats: Sequence[Format] = ("png",)) -> Path:
    """The page holds its figures; `STUDY-figures` beside it has them as files of these formats.

    Links to the runs are relative to `path`, so the page moves together with their folder.
    """
    folder = path.with_name(f"{path.stem}-figures")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {one.name: _picture(one, folder, formats) for one in draw_all(numbers)}
    _delete_earlier(folder, {f"{name}.{end}" for name in pictures for end in ("png", *formats)})
    study = numbers.results.study
    first = pictures.pop(_FIRST, "")
    body = [
        f"<h1>Study {escape(study.name)}</h1>",
        paragraph(study.question, "question"),
        *(paragraph(words, "note") for words in filter(None, [study.part_words()])),
        *([paragraph(study.note, "note")] if study.note else []),
        headline_paragraph(numbers),
        first,
        *_facts(numbers),
        summary_section(numbers),
        contrasts_section(numbers),
        section("figures", "Figures", *pictures.values()),
        dots_section(numbers, path),
        aggregates_section(numbers),
        games_section(numbers),
        completeness_section(numbers),
        protocols_section(numbers.results),
        settings_section(numbers),
        runs_section(numbers.results, path),
        glossary_section(),
    ]
    with replacing(path) as aside:
        aside.write_text(page(f"Study {study.name}", body), encoding="utf-8")
    return path


def _delete_earlier(folder: Path, written: set[str]) -> None:
    """Figures that an earlier report left, of other arms or in other formats."""
    for path in folder.iterdir():
        if path.suffix in (".png", ".pdf", ".svg") and path.name not in written:
            path.unlink()


def _picture(drawing: Drawing, folder: Path, formats: Sequence[Format]) -> str:
    """Writes the drawing's files, and gives its place on the page, which needs it as PNG."""
    rendered = render(drawing.figure, list(dict.fromkeys(["png", *formats])))
    for suffix, content in rendered.items():
        with replacing(folder / f"{drawing.name}.{suffix}") as aside:
            aside.write_bytes(content)
    narrow = None if drawing.narrow is None else render(drawing.narrow, ["png"])["png"]
    link = f"{folder.name}/{drawing.name}.png"
    width = drawing.figure.get_figwidth()
    return picture(drawing.name, rendered["png"], width, drawing.caption, link, narrow)


def _facts(numbers: StudyNumbers) -> Iterable[str]:
    study = numbers.results.study
    decisions = f"{study.total_decisions:,} decisions"
    if numbers.frames_per_decision > 1:
        decisions += f" = {study.total_decisions * numbers.frames_per_decision:,} frames"
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name in _SECTIONS.items())
    yield f"<nav>{links}</nav>"
    yield facts(
        {
            "runs": f"{counted(len(study.arms), 'arm')} × {counted(len(study.games), 'game')} × "
            f"{counted(len(study.seeds), 'seed')} = {len(study.runs):,}",
            "budget of a run": decisions,
            "score": _scored(study),
            "reference": study.reference,
        }
    )
    yield paragraph(f"Arms: {_arms_in_short(study.arms)}.", "note")
    yield paragraph(f"Games: {', '.join(study.games)}.", "note")
    yield paragraph(f"Seeds: {', '.join(map(str, study.seeds))}.", "note")


def _scored(study: Study) -> str:
    evaluation = study.evaluated
    if study.metric == "evaluation":
        own = [
            f"{arm.name}: {arm.evaluation_epsilon:g}"
            for arm in study.arms
            if arm.evaluation_epsilon not in (None, evaluation.epsilon)
        ]
        return (
            f"evaluation every {evaluation.every_decisions:,} decisions, "
            f"{evaluation.episodes} games, ε {evaluation.epsilon:g}"
            + (f" ({', '.join(own)})" if own else "")
        )
    parts = f"in {evaluation.test_bins} equal parts"
    if study.metric == "released-test":
        return (
            "at each decision the last finished game of each greedy test environment, 0 before the "
            f"first, as in PQN's release; {parts}"
        )
    return f"finished games of the greedy test environments, {parts}"


def _arms_in_short(arms: tuple[Arm, ...]) -> str:
    lines = series_of(arms)
    utds = [f"{utd:g}" for utd in sorted(lines[0].by_utd)]
    if len(utds) > 1 and all(line.by_utd.keys() == lines[0].by_utd.keys() for line in lines):
        return f"{', '.join(line.label for line in lines)}; each at UTD {', '.join(utds)}"
    return ", ".join(arm.name for arm in arms)
