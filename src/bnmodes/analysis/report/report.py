"""One HTML page for a study: what was asked, what ran, what it shows, and how to check it."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bnmodes.analysis.figures.scores import draw_all
from bnmodes.analysis.figures.style import save
from bnmodes.analysis.findings import Contrast, contrasts, summary
from bnmodes.analysis.report.page import (
    bullets,
    facts,
    folded,
    interval_cell,
    number_cell,
    page,
    paragraph,
    picture,
    row_name,
    section,
    table,
    text_cell,
)
from bnmodes.analysis.report.runs import (
    arm_name,
    protocols_section,
    runs_section,
    settings_section,
)
from bnmodes.analysis.statistics import AGGREGATES
from bnmodes.analysis.study_numbers import (
    MEASURE_NAMES,
    MEASURES,
    StudyNumbers,
    missing_text,
    series_of,
)
from bnmodes.envs.atari import FRAME_SKIP
from bnmodes.studies.results import StudyResults
from bnmodes.studies.study import Arm, Study

_SECTIONS = {
    "summary": "Summary",
    "completeness": "Completeness",
    "aggregates": "Aggregates",
    "contrasts": "Contrasts",
    "figures": "Figures",
    "games": "Games",
    "protocols": "Protocols",
    "settings": "Settings",
    "runs": "Runs",
}


def write_report(numbers: StudyNumbers, path: Path) -> Path:
    """The page holds its figures; `STUDY-figures` beside it has them as PNG, PDF and SVG too.

    Links to the runs are relative to `path`, so the page moves together with their folder.
    """
    results, found = numbers.results, contrasts(numbers)
    figures = draw_all(numbers)
    for name, figure in figures.items():
        save(figure, path.with_name(f"{path.stem}-figures") / name)
    body = [
        *_asked(results),
        _summary(numbers, found),
        _completeness(numbers),
        _aggregates(numbers),
        _contrasts(numbers, found),
        _figures(numbers, figures),
        _games(numbers),
        protocols_section(results),
        settings_section(results),
        runs_section(results, path),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(f"Study {results.study.name}", body), encoding="utf-8")
    return path


def _asked(results: StudyResults) -> Iterable[str]:
    study = results.study
    decisions = f"{study.total_decisions:,} decisions"
    if study.is_atari:
        decisions += f" = {study.total_decisions * FRAME_SKIP:,} frames"
    yield f"<h1>Study {escape(study.name)}</h1>"
    yield paragraph(study.question, "question")
    yield facts(
        {
            "runs": f"{len(study.arms)} arms × {len(study.games)} games × "
            f"{len(study.seeds)} seeds = {len(study.runs):,}",
            "budget of a run": decisions,
            "score": _scored(study),
            "reference": study.reference,
        }
    )
    yield paragraph(f"Arms: {_arms_in_short(study.arms)}.", "note")
    yield paragraph(f"Games: {', '.join(study.games)}.", "note")
    yield paragraph(f"Seeds: {', '.join(map(str, study.seeds))}.", "note")
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name in _SECTIONS.items())
    yield f"<nav>{links}</nav>"


def _scored(study: Study) -> str:
    evaluation = study.evaluation
    if study.metric == "evaluation":
        return (
            f"evaluation every {evaluation.every_decisions:,} decisions, "
            f"{evaluation.episodes} games, ε {evaluation.epsilon:g}"
        )
    return f"finished games of the greedy test environments, in {evaluation.test_bins} equal parts"


def _final(study: Study) -> str:
    return "the last one" if study.final_points == 1 else f"that of the last {study.final_points}"


def _arms_in_short(arms: tuple[Arm, ...]) -> str:
    lines = series_of(arms)
    utds = [f"{utd:g}" for utd in sorted(lines[0].by_utd)]
    if len(utds) > 1 and all(line.by_utd.keys() == lines[0].by_utd.keys() for line in lines):
        return f"{', '.join(line.label for line in lines)}; each at UTD {', '.join(utds)}"
    return ", ".join(arm.name for arm in arms)


def _summary(numbers: StudyNumbers, found: list[Contrast]) -> str:
    box = f'<div class="summary">{bullets(summary(numbers, found))}</div>'
    warning = [paragraph(note, "warn")] if (note := _whole_note(numbers)) else []
    return section("summary", "What the data show", *warning, box)


def _whole_note(numbers: StudyNumbers) -> str:
    note = numbers.missing_note({arm.swept_utd for arm in numbers.results.study.arms})
    return f"{note}." if note else ""


def _completeness(numbers: StudyNumbers) -> str:
    study, missing = numbers.results.study, numbers.results.missing
    declared = len(study.runs)
    done = f"{declared - len(missing):,} of {declared:,} declared runs are finished."
    content = [f'<p id="finished" data-point="{declared - len(missing)}">{done}</p>']
    if missing:
        left_out = set(study.games) - set(numbers.compared.study.games)
        if left_out:
            content.append(
                paragraph(
                    "Aggregates and contrasts are over the games where every arm that has any run "
                    f"has one. Left out: {', '.join(sorted(left_out))}."
                )
            )
        content.append(
            folded(
                missing_text(len(missing), declared),
                bullets(map(str, missing)),
                is_open=len(missing) <= 20,
            )
        )
    return section("completeness", "Completeness", *content)


def _aggregates(numbers: StudyNumbers) -> str:
    study = numbers.compared.study
    if study.is_atari:
        unit = (
            f"Unit: {numbers.unit}. 0 is a random player, 1 the human of the table {numbers.table}."
        )
    else:
        unit = f"Unit: {numbers.unit}. 1 is the mean AUC of {study.reference} on each game."
    content = [
        paragraph(
            f"{unit} In brackets: 95% intervals from {numbers.resamples:,} resamples of the seeds "
            "within each game, with the games fixed. AUC is the mean over a run's equally "
            f"spaced points, final is {_final(study)}. The optimality gap is how far runs stay "
            "below 1 on average: lower is better.",
            "note",
        )
    ]
    for measure in MEASURES:
        whole = numbers.reference_point(measure)
        percent = [f"IQM, % of {numbers.reference.name}"] if whole is not None else []
        rows = []
        for arm in numbers.arms:
            cells = [
                interval_cell(f"{measure}|{name}|{arm.name}", numbers.interval(arm, measure, of))
                for name, of in AGGREGATES.items()
            ]
            if whole is not None:
                relative = numbers.relative(arm, measure)
                cells.insert(1, interval_cell(f"{measure}|percent|{arm.name}", relative, "%"))
            rows.append([arm_name(arm), *cells])
        first, *others = AGGREGATES
        content.append(f"<h3>{MEASURE_NAMES[measure]}</h3>")
        content.append(table(["arm", first, *percent, *others], rows))
    return section("aggregates", "Aggregates", *content)


def _contrasts(numbers: StudyNumbers, found: list[Contrast]) -> str:
    if not found:
        return section("contrasts", "Contrasts", paragraph("There is no arm to compare with."))
    content = [
        paragraph(
            f"Each arm minus {_compared_with(numbers)}: difference of the IQMs "
            f"({numbers.unit}) with the same resampled seeds in both arms, and the probability "
            "that a run of the arm beats a run of the reference on the same game.",
            "note",
        )
    ]
    for measure in MEASURES:
        rows = [
            [
                arm_name(one.arm),
                text_cell(one.other.name),
                interval_cell(f"{measure}|difference|{one.arm.name}", one.difference),
                interval_cell(f"{measure}|improvement|{one.arm.name}", one.improvement),
                text_cell(one.verdict),
            ]
            for one in found
            if one.measure == measure
        ]
        header = ["arm", "minus", "IQM difference", "probability of improvement", "verdict"]
        content += [f"<h3>{MEASURE_NAMES[measure]}</h3>", table(header, rows)]
    return section("contrasts", "Paired contrasts", *content)


def _compared_with(numbers: StudyNumbers) -> str:
    if len(numbers.utds) > 1:
        return "the reference's configuration at the same UTD"
    return numbers.results.study.reference


def _figures(numbers: StudyNumbers, figures: dict[str, Figure]) -> str:
    pictures = [picture(figure, name, _caption(numbers, name)) for name, figure in figures.items()]
    return section("figures", "Figures", *pictures)


def _caption(numbers: StudyNumbers, name: str) -> str:
    study = numbers.compared.study
    over = f"{len(study.games)} games and {len(study.seeds)} seeds"
    interval = "95% intervals from resampled seeds, games fixed"
    at_utd = f" at UTD {numbers.utds[0]:g}" if len(numbers.utds) > 1 else ""
    if name == "bars":
        return (
            f"AUC and final IQM{at_utd}, over {over}. Bars with {interval}; "
            f"dotted: the point estimate of {study.reference}."
        )
    if name == "aggregates":
        return f"Four aggregates of the final score{at_utd}, over {over}; boxes: {interval}."
    if name == "momentum":
        return (
            "Returns against the Flax momentum with which the loss forward writes the stored "
            "moments: raw, mean ± standard error over seeds; of more than three games, their IQM "
            "with 95% intervals. A level line belongs to an arm that never "
            "reads them when it acts or bootstraps; the star is the released setting."
        )
    if name == "scaling":
        return f"AUC and final IQM against updates per decision, over {over}; bands: {interval}."
    if name == "curves":
        return (
            f"IQM while learning ({numbers.unit}), over {over}; bands: {interval}, whole runs "
            "resampled. Each panel has its own vertical scale."
        )
    if name == "mismatch":
        return (
            "Does mismatch predict which arm fails? Stored moments against those of the rows that "
            "each role really gets, in every BatchNorm arm, also where nothing reads them. Above: "
            "|difference of means| in standard deviations of the batch, median over channels, mean "
            "over layers and games; grey: what two batches of that size would show. Below: share "
            "of greedy actions that differ between stored moments and batch statistics on the same "
            "rows."
        )
    if name == "representation":
        return (
            "Share of hidden units whose mean activation is at most 0.025 of their layer's, and "
            "effective rank of the centred features before the head, with the statistics of the "
            "predict forward; mean over games with pointwise 95% bands."
        )
    at_utd = name.removeprefix("per-game").replace("-utd-", " at UTD ")
    return f"Raw returns on each game{at_utd}: mean ± standard error over seeds."


def _games(numbers: StudyNumbers) -> str:
    content = [paragraph("Raw returns, mean over the seeds that are there.", "note")]
    for utd in numbers.utds:
        arms = [arm for _, arm in numbers.arms_at(utd)]
        for measure, measured in MEASURES.items():
            means = np.array([_seed_means(measured(numbers.raw(arm))) for arm in arms])
            rows = [
                [
                    row_name(game),
                    *(
                        number_cell(f"{measure}|{game}|{arm.name}", float(mean))
                        for arm, mean in zip(arms, of_game, strict=True)
                    ),
                ]
                for game, of_game in zip(numbers.raw(arms[0]).games, means.T, strict=True)
            ]
            footer = _wins(numbers, arms, means, measure)
            title = f"{MEASURE_NAMES[measure]} {numbers.utd_name(utd)}".strip()
            grid = table(["game", *(arm.name for arm in arms)], rows, footer=footer)
            content.append(folded(title, grid, is_open=len(numbers.utds) == 1))
    return section("games", "Each game", *content)


def _seed_means(values: np.ndarray) -> np.ndarray:
    """[games, seeds] → [games]; NaN where no seed is there."""
    there = ~np.isnan(values)
    number = there.sum(-1)
    total = np.where(there, values, 0).sum(-1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _wins(numbers: StudyNumbers, arms: list[Arm], means: np.ndarray, measure: str) -> list[str]:
    by_name = dict(zip((arm.name for arm in arms), means, strict=True))
    others = [numbers.counterpart(arm) for arm in arms]
    if not any(others):
        return []
    cells = []
    for arm, other in zip(arms, others, strict=True):
        if other is None:
            cells.append('<td class="n">–</td>')
            continue
        ahead = by_name[arm.name] - by_name[other.name]
        won, played = int((ahead > 0).sum()), int((~np.isnan(ahead)).sum())
        cells.append(number_cell(f"{measure}|wins|{arm.name}", won, f"{won} of {played}"))
    name = next(other.name for other in others if other is not None)
    return [row_name(f"games above {name}"), *cells]
