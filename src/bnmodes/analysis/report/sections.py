"""The parts of a report that hold numbers: contrasts, aggregates, games, completeness."""

from functools import partial

import numpy as np

from bnmodes.analysis.captions import intervals_as, percent_words
from bnmodes.analysis.contrasts import UNJUDGED, Contrast
from bnmodes.analysis.findings import headline, summary
from bnmodes.analysis.published_arms import published_interval
from bnmodes.analysis.report.page import (
    bullets,
    folded,
    interval_cell,
    number_cell,
    paragraph,
    row_name,
    section,
    table,
    text_cell,
)
from bnmodes.analysis.report.runs import arm_name
from bnmodes.analysis.statistics import AGGREGATES, compare, seed_means
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers, missing_text
from bnmodes.analysis.wording import counted
from bnmodes.studies.results import damaged_notes, imported_note, outdated_notes
from bnmodes.studies.study import Arm, Study


def headline_paragraph(numbers: StudyNumbers) -> str:
    return paragraph(headline(numbers), "headline")


def summary_section(numbers: StudyNumbers) -> str:
    box = f'<div class="summary">{bullets(summary(numbers))}</div>'
    note = numbers.missing_note({utd for utd in numbers.utds})
    warning = [paragraph(f"{note}.", "warn")] if note else []
    return section("summary", "What the data show", *warning, box)


def contrasts_section(numbers: StudyNumbers) -> str:
    found = numbers.contrasts
    if not found:
        return section("contrasts", "Contrasts", paragraph("There is no arm to compare with."))
    pairs = len(found) // len(MEASURES)
    content = [
        paragraph(
            f"An arm minus another: difference of the IQMs ({numbers.unit}), and the probability "
            "that a run of the arm beats a run of the other on the same game; "
            f"{intervals_as(numbers, 'in brackets {}, the same seeds in both arms')}. The verdict "
            "is that of a permutation test within games; p is corrected for the measures and, by "
            f"Holm, for {counted(pairs, 'pair')}, and an arm is above or below another "
            "where it is at most 0.05.",
            "note",
        )
    ]
    claims = [
        f"{each.arm} − {each.other}: {each.claim}"
        for each in numbers.compared.study.contrasts
        if each.claim
    ]
    if claims:
        content += [paragraph("What each declared contrast tests:", "note")]
        content.append(bullets(claims))
    cell = partial(interval_cell, has_interval=numbers.has_intervals)
    for measure in MEASURES:
        rows = [
            [
                arm_name(numbers, one.arm),
                text_cell(one.other.name),
                text_cell(one.verdict),
                cell(f"{measure}|difference|{_pair(one)}", one.difference),
                number_cell(
                    f"{measure}|p|{_pair(one)}", one.p, "–" if one.verdict == UNJUDGED else None
                ),
                cell(f"{measure}|improvement|{_pair(one)}", one.improvement),
                text_cell(f"{one.games_ahead} of {one.games}"),
            ]
            for one in found
            if one.measure == measure
        ]
        header = ["arm", "minus", "verdict", "IQM difference", "p", "probability of improvement"]
        header += ["games ahead"]
        content += [f"<h3>{MEASURE_NAMES[measure]}</h3>", table(header, rows)]
    return section("contrasts", "Contrasts", *content)


def _pair(contrast: Contrast) -> str:
    return f"{contrast.arm.name}|{contrast.other.name}"


def aggregates_section(numbers: StudyNumbers) -> str:
    study = numbers.compared.study
    brackets = f"In brackets: {{}}, {numbers.resamples:,} resamples"
    content = [
        paragraph(
            f"{_unit(numbers)} {intervals_as(numbers, brackets)}. {percent_words(numbers)} "
            "AUC is the mean over a run's equally spaced points, "
            f"final is {_final(study)}. The optimality gap is how far runs stay below 1 on "
            "average: lower is better.",
            "note",
        )
    ]
    cell = partial(interval_cell, has_interval=numbers.has_intervals)
    for measure in MEASURES:
        whole = numbers.reference_point(measure)
        percent = [f"IQM, % of {numbers.reference_name}"] if whole is not None else []
        rows = []
        for arm in numbers.arms:
            cells = [
                cell(f"{measure}|{name}|{arm.name}", numbers.interval(arm, measure, of))
                for name, of in AGGREGATES.items()
            ]
            if whole is not None:
                relative = numbers.relative(arm, measure)
                cells.insert(1, cell(f"{measure}|percent|{arm.name}", relative, "%"))
            rows.append([arm_name(numbers, arm), *cells])
        first, *others = AGGREGATES
        content.append(f"<h3>{MEASURE_NAMES[measure]}</h3>")
        content.append(table(["arm", first, *percent, *others], rows))
    if numbers.published:
        content += ["<h3>Published by others</h3>", _published_table(numbers)]
    return section("aggregates", "Aggregates", *content)


def _published_table(numbers: StudyNumbers) -> str:
    """IQMs as the study's own are shown; nothing of them is tested."""
    rows = []
    for arm in numbers.published:
        found = {measure: published_interval(numbers, arm, measure) for measure in MEASURES}
        cells = [
            interval_cell(f"{measure}|published|{arm.name}", of) if of else text_cell("–")
            for measure, of in found.items()
        ]
        rows.append([row_name(arm.label(numbers)), *cells, text_cell(arm.source)])
    header = [f"{name} IQM, {numbers.relative_unit(m)}" for m, name in MEASURE_NAMES.items()]
    return table(["arm", *header, "source"], rows)


def _unit(numbers: StudyNumbers) -> str:
    if numbers.human:
        one = f"0 is a random player, 1 the human of the table {numbers.table}"
        return f"Unit: {numbers.unit}. {one}."
    if numbers.unit == "raw return":
        return "Unit: raw return."
    return f"Unit: {numbers.unit}. 1 is its mean AUC on each game."


def _final(study: Study) -> str:
    return "the last one" if study.final_points == 1 else f"that of the last {study.final_points}"


def games_section(numbers: StudyNumbers) -> str:
    content = [paragraph("Raw returns, mean over the seeds that are there.", "note")]
    for utd in numbers.utds:
        arms = [arm for _, arm in numbers.arms_at(utd)]
        for measure, measured in MEASURES.items():
            means = np.array([seed_means(measured(numbers.raw(arm))) for arm in arms])
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
            footer = _games_above(numbers, arms, means, measure)
            title = f"{MEASURE_NAMES[measure]} {numbers.utd_name(utd)}".strip()
            grid = table(["game", *(arm.name for arm in arms)], rows, footer=footer)
            content.append(folded(title, grid, is_open=len(numbers.utds) == 1))
    return section("games", "Each game", *content)


def _games_above(
    numbers: StudyNumbers, arms: list[Arm], means: np.ndarray, measure: str
) -> list[str]:
    """A footer: on how many games each arm's mean is above that of the reference."""
    by_name = dict(zip((arm.name for arm in arms), means, strict=True))
    others = [numbers.counterpart(arm) for arm in arms]
    if not any(others):
        return []
    cells = []
    for arm, other in zip(arms, others, strict=True):
        if other is None:
            cells.append('<td class="n">–</td>')
            continue
        ahead = compare(by_name[arm.name], by_name[other.name])
        won, played = int((ahead > 0).sum()), int((~np.isnan(ahead)).sum())
        cells.append(number_cell(f"{measure}|wins|{arm.name}", won, f"{won} of {played}"))
    name = next(other.name for other in others if other is not None)
    return [row_name(f"games above {name}"), *cells]


def completeness_section(numbers: StudyNumbers) -> str:
    study, missing = numbers.results.study, numbers.results.missing
    declared = len(study.runs)
    done = f"{declared - len(missing):,} of {declared:,} declared runs are finished."
    content = [f'<p id="finished" data-point="{declared - len(missing)}">{done}</p>']
    results = numbers.results
    notes = outdated_notes(results.outdated, results.root) + damaged_notes(results.damaged)
    if imported := imported_note(results.imported, declared - len(missing)):
        notes.append(imported[0].upper() + imported[1:])
    for note in notes:
        content.append(paragraph(f"{note}.", "warn"))
    left_out = set(study.games) - set(numbers.compared.study.games)
    if missing and left_out:
        content.append(
            paragraph(
                "Aggregates and contrasts are over the games where every arm that has any run "
                f"has one. Left out: {', '.join(sorted(left_out))}."
            )
        )
    if missing:
        content.append(
            folded(
                missing_text(len(missing), declared),
                bullets(map(str, missing)),
                is_open=len(missing) <= 20,
            )
        )
    return section("completeness", "Completeness", *content)
