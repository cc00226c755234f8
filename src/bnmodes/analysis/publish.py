"""A study's results as a folder to keep: numbers, figures, and a page that shows them.

`studies.published` has the numbers' part of the folder and reads it.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from bnmodes.analysis.captions import intervals_as, percent_words
from bnmodes.analysis.figures.figure import draw_all
from bnmodes.analysis.figures.style import game_title, render
from bnmodes.analysis.findings import summary
from bnmodes.analysis.report.summary_table import return_cells
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers
from bnmodes.analysis.wording import counted, written
from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.studies.published import TABLES, read_published, write_published
from bnmodes.studies.results import StudyResults
from bnmodes.studies.study import RETURNS, StudyRun

FIGURES = "## Figures"
"""The heading after which a page has no numbers but those of captions."""


def study_numbers(results: StudyResults) -> StudyNumbers:
    """As the report has them by default, of whatever runs are there."""
    return StudyNumbers(results, allow_missing=bool(results.missing))


def publish(
    results: StudyResults,
    about: Mapping[str, Any],
    commits: Mapping[StudyRun, str],
    folder: Path,
) -> None:
    """Write the folder, in the place of an earlier one of the same study's results."""
    _refuse_other_content(folder, results)
    numbers = study_numbers(results)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place:
        staged = Path(place) / folder.name
        staged.mkdir()
        text = f"{numbers_page(numbers, about)}\n{write_figures(numbers, staged)}"
        (staged / "README.md").write_text(text, encoding="utf-8")
        # By now everything that a report reads was asked for.
        write_published(results, results.asked | set(RETURNS.values()), about, commits, staged)
        _put_in_place(staged, folder, Path(place) / "before")


def write_figures(numbers: StudyNumbers, folder: Path) -> str:
    """Draw all figures into the folder; returns the part of its page that shows them."""
    (folder / "figures").mkdir(exist_ok=True)
    shown = []
    for drawing in draw_all(numbers):
        picture = Path("figures") / f"{drawing.name}.png"
        (folder / picture).write_bytes(render(drawing.figure, ["png"])["png"])
        shown.append(f"![{drawing.name}]({picture.as_posix()})\n\n*{drawing.caption}*")
    return "\n\n".join(filter(None, [FIGURES, _unmeasured_words(numbers.results), *shown])) + "\n"


def _unmeasured_words(results: StudyResults) -> str:
    """How many runs lack a number that figures show of others of their arm, as runs do that were
    published before it was measured; empty: none. Diverged runs lack it for another reason."""
    run = ["arm", "game", "seed"]
    there = results.table.filter(pl.col("metric").is_in(list(results.asked)))
    pairs = there.select(*run, "metric").unique()
    of_arm = pairs.group_by("arm").agg(pl.col("metric").n_unique().alias("most"))
    of_run = pairs.group_by(run).agg(pl.len().alias("own")).join(of_arm, on="arm")
    fewer = of_run.filter(pl.col("own") < pl.col("most")).collect()
    diverged = {(one.arm, canonical_name(one.game), one.seed) for one in results.diverged}
    number = sum(row not in diverged for row in fewer.select(run).iter_rows())
    if not number:
        return ""
    lack = "lacks" if number == 1 else "lack"
    return f"{counted(number, 'run')} {lack} some of the measured quantities below."


def _refuse_other_content(folder: Path, results: StudyResults) -> None:
    """The folder will be replaced: it must hold nothing, or what was published of this study and
    is among these results."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: choose another --to.")
    ours = {"README.md", "figures", "study.json", *TABLES}
    others = [path.name for path in folder.iterdir() if path.name not in ours]
    others += [f"figures/{path.name}" for path in folder.glob("figures/*") if path.suffix != ".png"]
    if others:
        raise UsageError(f"{folder} holds something else ({min(others)}): choose another --to.")
    try:
        before = read_published(folder)
    except UsageError as error:
        reason = str(error).rstrip(".")
        raise UsageError(
            f"{folder} would be replaced, but {reason}; or choose another --to."
        ) from None
    # A user's file may be named from another folder.
    if Path(before.study).name != Path(results.study.source).name:
        raise UsageError(f"{folder} holds results of study {before.study}: choose another --to.")
    there = {(run.arm, canonical_name(run.game), run.seed) for run in results.finished}
    if lost := [run for run in before.runs if (run.arm, run.game, run.seed) not in there]:
        raise UsageError(
            f"{folder} holds {counted(len(lost), 'run')} that would be lost ({lost[0].arm} on "
            f"{lost[0].game}, seed {lost[0].seed}, …): `bnmodes study import` puts them back, to "
            "publish them too; or choose another --to."
        )


def _put_in_place(staged: Path, folder: Path, aside: Path) -> None:
    """An earlier folder goes aside, and comes back if the new one cannot take its place."""
    if folder.exists():
        folder.rename(aside)
    try:
        staged.rename(folder)
    except BaseException:
        if aside.exists():
            aside.rename(folder)
        raise


def numbers_page(numbers: StudyNumbers, about: Mapping[str, Any]) -> str:
    """The page without its figures: what was asked, scores, what the data show, how it was made."""
    study = numbers.results.study
    finished, declared = len(numbers.results.finished), len(study.whole.runs)
    sentences = "\n".join(f"- {_plain(sentence)}" for sentence in summary(numbers))
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    parts = [
        f"# Results of {study.name}",
        study.question,
        *filter(None, [study.note, study.part_words(), _missing_words(numbers)]),
        f"{finished:,} of {declared:,} declared runs, {study.total_decisions:,} decisions each. "
        f"Mean returns and IQMs; {intervals_as(numbers, 'in brackets {}')}.",
        _score_table(numbers),
        *filter(None, [percent_words(numbers)]),
        *_contrast_part(numbers),
        "## What the data show",
        sentences,
        "## How it was made",
        f"```sh\n{about['command']}\n```",
        f"Begun with commit {about['commit']}; Python {about['python']}, {versions}; machine: "
        f"{about['machine']}. To draw the report again, without a run:",
        f"```sh\n{about['import']}\n{about['report']}\n```",
        _arm_table(numbers),
    ]
    return "\n\n".join(parts) + "\n"


def _missing_words(numbers: StudyNumbers) -> str:
    """Which runs IQMs and tests leave out; empty where all are there."""
    note = numbers.missing_note(numbers.utds)
    return f"{note[0].upper()}{note[1:]}; mean returns are of all finished runs." if note else ""


def _score_table(numbers: StudyNumbers) -> str:
    games = numbers.raw(numbers.arms[0]).games
    header = ["arm", *(f"{game_title(game)}, AUC / final" for game in games)]
    header += [
        f"{name} IQM, {numbers.relative_unit(measure)}" for measure, name in MEASURE_NAMES.items()
    ]
    rows = []
    for arm in numbers.arms:
        row = [arm.name, *return_cells(numbers, arm)]
        rows.append(row + [written(numbers.relative(arm, measure)) for measure in MEASURES])
    return _table(header, rows)


def _contrast_part(numbers: StudyNumbers) -> list[str]:
    """A row for each pair of arms that the study compares; nothing where it has one arm."""
    claims = {(one.arm, one.other): one.claim for one in numbers.results.study.contrasts}
    rows: dict[tuple[str, str], list[str]] = {}
    for one in numbers.contrasts:
        pair = (one.arm.name, one.other.name)
        start = [" − ".join(pair), *([claims[pair] or "–"] if claims else [])]
        rows.setdefault(pair, start).append(f"{written(one.difference, sign=True)}: {one.told}")
    if not rows:
        return []
    header = ["contrast", *(["claim"] if claims else []), *MEASURE_NAMES.values()]
    return [
        f"Differences of IQMs ({numbers.unit}), and verdicts of permutation tests:",
        _table(header, list(rows.values())),
    ]


def _arm_table(numbers: StudyNumbers) -> str:
    rows = [
        [
            arm.name,
            f"`{arm.agent}`",
            f"`{arm.base}`",
            ", ".join(f"`{name}` {value}" for name, value in arm.changes.items()) or "–",
        ]
        for arm in numbers.results.study.arms
    ]
    return _table(["arm", "agent", "arm of the agent", "what it changes"], rows)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _plain(text: str) -> str:
    """Without the signs that Markdown takes for its own; between backticks only | is one."""
    parts = text.replace("|", "\\|").split("`")
    for place in range(0, len(parts), 2):
        part = parts[place].replace("*", "\\*").replace("<", "&lt;")
        parts[place] = part.replace("_", "\\_")
    return "`".join(parts)
