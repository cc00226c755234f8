"""How results are scored: options that the report and the paper's figures share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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

    def numbers(self, results: "StudyResults", **options) -> "StudyNumbers":
        from bnmodes.analysis.study_numbers import StudyNumbers  # here: it takes a second

        return StudyNumbers(
            results,
            allow_missing=self.allow_missing,
            table=self.human_table,
            interval=self.interval,
            **options,
        )
