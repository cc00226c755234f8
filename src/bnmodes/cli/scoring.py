"""How results are scored: options that the report and the paper's figures share."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bnmodes.errors import UsageError

if TYPE_CHECKING:
    from bnmodes.analysis.study_numbers import StudyNumbers
    from bnmodes.studies.results import StudyResults


@dataclass(frozen=True, kw_only=True)
class Scoring:
    out: Path = Path("results")
    """Folder of results."""
    allow_missing: bool = False
    """Show what is there, marking every figure, instead of refusing an incomplete study."""
    human_table: Literal["wang2016", "mnih2015"] = "wang2016"
    """Human scores of the normalisation on Atari."""
    interval: Literal["stretched", "percentile"] = "stretched"
    """Intervals that hold at few seeds, or the plain percentile bootstrap that rliable uses."""
    released_metrics: bool = False
    """Score test environments as PQN's release does: the last finished game at each decision."""

    def numbers(self, results: "StudyResults", **options) -> "StudyNumbers":
        from bnmodes.analysis.study_numbers import StudyNumbers  # here: it takes a second

        if self.released_metrics:
            results = _as_released(results)
        return StudyNumbers(
            results,
            allow_missing=self.allow_missing,
            table=self.human_table,
            interval=self.interval,
            **options,
        )


def _as_released(results: "StudyResults") -> "StudyResults":
    study = results.study
    if study.metric != "test":
        raise UsageError(
            f"study {study.name} does not score test environments: leave out --released-metrics."
        )
    return replace(results, study=replace(study, metric="released-test"))
