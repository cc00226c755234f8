"""Write every page that shows published results, from the results themselves:

    python tests/docs/claims.py              # after a change of results, verdicts or sentences
    python tests/docs/claims.py --figures    # after a change of figures: draw them again too

docs/results/claims.toml has the paper's claims, our own questions and which of our numbers speak of
them, and docs/results/STUDY the numbers. Written are docs/claims.md, the table of claims in README,
and the part of each docs/results/STUDY/README.md that has no figures.
"""

import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from bnmodes.analysis.publish import FIGURES, numbers_page, study_numbers, write_figures
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers
from bnmodes.analysis.wording import counted, written
from bnmodes.studies.published import Published, read_published
from bnmodes.studies.registry import find_study

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
VERDICTS = ("agrees", "disagrees", "points that way", "cannot tell")
BEGIN, END = "<!-- claims -->", "<!-- end of claims -->"
_INTRODUCTION = """\
# Claims of the paper

What the paper claims, with its numbers; what was measured here, at which size; and the verdict of
each study: it **agrees** where a test shows the direction of the claim, **disagrees** where a test
shows the opposite or the interval excludes an effect as large as the paper's, and **points that
way** where there are too few seeds for a test but every run shows the direction; else we **cannot
tell**. The paper's numbers are of Atari, most of ours of MinAtar: a verdict is about the games and
lengths named, not about the paper.

Brackets are 95% intervals, not corrected for their number; p-values are those of permutation
tests, corrected for all contrasts of a study. Where an interval excludes 0 and p is above 0.05, p
counts ([statistics](explanation/statistics.md)). A difference of arms is one of IQMs in units of
the mean AUC of the study's reference arm: +0.78 is 78% of that AUC, and a final difference can
exceed 1; on Atari it is in human-normalised scores. The contrasts of `demo`, `quick` and
`quick-c51` were declared after their runs had been seen, and `demo` is the smallest study that was
found to show the effect: read their p-values as descriptions. Those of `why-pqn`, `why-c51`,
`why-c51-paper`, `slow-c51` and `small-a-short` were declared before their runs. Every number of
ours is computed from the [published results](#published-results), and a test compares this page
with them. [The paper, line by line](paper.md) has the command for each figure.
"""


@cache
def claims_file() -> dict:
    return tomllib.loads((RESULTS / "claims.toml").read_text())


def claims() -> list[dict]:
    found = claims_file()["claim"]
    for claim in found:
        find_study(claim["study"])
        for tested in claim.get("tested", ()):
            assert tested["verdict"] in VERDICTS, f"{claim['title']}: {tested['verdict']}"
    return found


def studies() -> list[str]:
    """Those whose results are published."""
    return sorted(path.parent.name for path in RESULTS.glob("*/study.json"))


@cache
def published(study: str) -> Published:
    return read_published(RESULTS / study)


@cache
def numbers_of(study: str) -> StudyNumbers:
    """Of the arms, games and seeds that were published."""
    found = published(study)
    whole = find_study(found.study)
    return study_numbers(found.results(whole.spanned_by(found.of(whole))))


def measured_text(study: str, arm: str, minus: str | None = None) -> str:
    """An arm's IQMs with intervals, and the verdicts against the study's reference; or the
    differences from the arm `minus`, a contrast that the study declares."""
    numbers = numbers_of(study)
    if minus is not None:
        contrasts = [
            one for one in numbers.contrasts if (one.arm.name, one.other.name) == (arm, minus)
        ]
        assert contrasts, f"{study} declares no contrast {arm} − {minus}"
        parts = [
            f"{MEASURE_NAMES[one.measure]} {written(one.difference, sign=True)} ({one.told})"
            for one in contrasts
        ]
        return f"{arm} − {minus}: {'; '.join(parts)}"
    found = next(each for each in numbers.arms if each.name == arm)
    if numbers.human and len(numbers.raw(found).games) == 1:  # the paper, too, gives returns
        parts = [
            f"{MEASURE_NAMES[measure]} {np.nanmean(of(numbers.raw(found))):.1f}"
            for measure, of in MEASURES.items()
        ]
        return f"{arm}, mean returns: {'; '.join(parts)}".replace("-", "−")
    verdicts = {
        one.measure: f" ({one.told})"
        for one in numbers.contrasts
        if (one.arm, one.other) == (found, numbers.counterpart(found))
    }
    parts = []
    for measure, name in MEASURE_NAMES.items():
        value = written(numbers.relative(found, measure)).replace("-", "−")
        parts.append(f"{name} {value} {numbers.relative_unit(measure)}{verdicts.get(measure, '')}")
    return f"{arm}: {'; '.join(parts)}"


def scale_text(study: str) -> str:
    """How large a study the results are of."""
    numbers = numbers_of(study)
    games = ", ".join(numbers.compared.study.games)
    decisions = numbers.results.study.total_decisions
    return f"{games}; {counted(seed_count(study), 'seed')}; {decisions:,} decisions a run"


def short_scale(study: str) -> str:
    """Games and seeds, for a narrow table."""
    games = numbers_of(study).compared.study.games
    suites = "/".join(dict.fromkeys(game.partition("/")[0] for game in games))
    return f"{counted(len(games), 'game')} of {suites}, {counted(seed_count(study), 'seed')}"


def seed_count(study: str) -> int:
    return len({run.seed for run in published(study).runs})


def claims_page() -> str:
    return "\n".join([_INTRODUCTION, *_claim_tables(), *_question_table(), *_result_table()])


def _claim_tables() -> Iterator[str]:
    found = claims()
    for group in dict.fromkeys(claim["group"] for claim in found):
        yield f"## {group}\n"
        yield "| the paper says | its study | measured here | verdict |"
        yield "|---|---|---|---|"
        for claim in found:
            if claim["group"] == group:
                yield from _claim_rows(claim)
        yield ""


def _claim_rows(claim: dict) -> Iterator[str]:
    """One row for each study that tested the claim; the first has its words."""
    words = f"| {claim['paper']} | `{claim['study']}` |"
    if "tested" not in claim:
        note = f"; {claim['note']}" if "note" in claim else ""
        yield f"{words} – | not run{note} |"
    for tested in claim.get("tested", ()):
        measured = [one | {"study": tested["study"]} for one in tested["measured"]]
        yield f"{words} {_ours(measured)} | **{tested['verdict']}**: {tested['because']} |"
        words = "| | |"


def _question_table() -> Iterator[str]:
    yield "## Questions that the paper leaves open\n"
    yield "| question | study | measured here | answer |"
    yield "|---|---|---|---|"
    for one in claims_file()["question"]:
        measured = _ours(one.get("measured", ()))
        yield f"| {one['asked']} | `{one['study']}` | {measured} | {one['answer']} |"
    yield ""


def _ours(measured: Sequence[dict]) -> str:
    lines = [
        f"[{one['study']}](results/{one['study']}/README.md), {measured_text(**one)}"
        for one in measured
    ]
    return "<br>".join(lines) or "–"


def _result_table() -> Iterator[str]:
    yield "## Published results\n"
    yield "Each has its numbers, figures, and the command that repeats it; `bnmodes study import"
    yield "docs/results/STUDY` puts its runs back, and `bnmodes study report` draws them again.\n"
    yield "| study | size | runs | command | commit |"
    yield "|---|---|---|---|---|"
    for study in studies():
        about = published(study).about
        runs = f"{len(published(study).runs)} of {len(find_study(study).runs)}"
        cells = (scale_text(study), runs, f"`{about['command']}`", about["commit"])
        yield f"| [{study}](results/{study}/README.md) | {' | '.join(cells)} |"
    yield ""


def readme_table() -> str:
    """A line for each study that tested a claim, with its verdict; the other claims are counted."""
    lines = ["| claim of the paper | tested here on | verdict there |", "|---|---|---|"]
    claimed = [claim for claim in claims() if claim.get("claimed", True)]
    for claim in claimed:
        title = claim["title"]
        for tested in claim.get("tested", ()):
            study = tested["study"]
            at = f"; {tested['at']}" if "at" in tested else ""
            where = f"[{study}](docs/results/{study}/README.md) ({short_scale(study)}{at})"
            lines.append(f"| {title} | {where} | {tested['verdict']} |")
            title = ""
    untested = sum("tested" not in claim for claim in claimed)
    others = counted(untested, "other claim")
    return "\n".join([BEGIN, *lines, f"\nFor {others} nothing was run here yet.", END])


def with_table(readme: str) -> str:
    before, _, rest = readme.partition(BEGIN)
    return before + readme_table() + rest.partition(END)[2]


def result_page(study: str) -> str:
    """The page of a study's results, with the figures that it has."""
    text = (RESULTS / study / "README.md").read_text()
    return (
        f"{numbers_page(numbers_of(study), published(study).about)}\n{FIGURES}"
        + (text.partition(FIGURES)[2])
    )


def with_new_figures(study: str) -> str:
    """The same, with all figures drawn again."""
    folder = RESULTS / study
    shutil.rmtree(folder / "figures")
    pictures = write_figures(numbers_of(study), folder)
    return f"{numbers_page(numbers_of(study), published(study).about)}\n{pictures}"


def main() -> None:
    page_of = with_new_figures if "--figures" in sys.argv[1:] else result_page
    pages = {ROOT / "docs" / "claims.md": claims_page()}
    pages |= {RESULTS / study / "README.md": page_of(study) for study in studies()}
    pages |= {ROOT / "README.md": with_table((ROOT / "README.md").read_text())}
    for path, text in pages.items():
        path.write_text(text)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
