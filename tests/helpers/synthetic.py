"""Studies whose results are made up, with a planted effect of each arm."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from bnmodes.analysis.arms import changes_of, utd_of
from bnmodes.analysis.scores import (
    Scores,
    _human_score,
    collect,
    human_normalised,
    reference_normalised,
)
from bnmodes.envs.registry import canonical_name
from bnmodes.runs.spec import EvaluationSettings
from bnmodes.studies.paper import A as STUDY_A
from bnmodes.studies.paper import B as STUDY_B
from bnmodes.studies.results import SCHEMA, StudyResults
from bnmodes.studies.study import Arm, Study, StudyRun

__all__ = [
    "STUDY_A",
    "STUDY_B",
    "minatar_study",
    "normalised",
    "planted_level",
    "synthetic_results",
    "with_bootstrap_diagnostics",
    "with_diagnostics",
]

LEVEL = {
    "none": 0.3,
    "ln": 0.38,
    "bn-running": 0.15,
    "bn-tracked": 0.3,
    "bn-bootstrap-only": 0.25,
    "bn-act-only": 0.35,
    "bn-batch": 0.45,
    "bn-joined": 0.5,
    "bn-independent": 0.4,
    "bn-pool": 0.42,
    "bn-partner": 0.44,
    "ln-wn": 0.36,
    "bn-wn": 0.4,
}


def minatar_study(
    games=("breakout", "space_invaders"),
    seeds=(0, 1, 2),
    bases=("none", "ln", "bn-running", "bn-tracked", "bn-batch"),
):
    names = {"none": "C51", "ln": "LN"}
    return Study(
        name="small",
        question="Is what was planted <found> & shown?",
        arms=tuple(Arm(names.get(base, base.replace("bn-", "BN ")), base) for base in bases),
        games=tuple(f"minatar/{game}" for game in games),
        seeds=tuple(seeds),
        total_decisions=40_000,
        record_every_decisions=1_000,
        evaluation=EvaluationSettings(every_decisions=4_000, episodes=10),
        reference="C51",
    )


def planted_level(arm: Arm) -> float:
    """Normalised score at the end; a projected arm gains from updates, others only at first."""
    level, doublings = LEVEL[arm.base], np.log2((utd_of(arm) or 0.25) / 0.25)
    if arm.agent == "pqn":
        return level
    if arm.base == "bn-tracked":
        level += 0.05 * np.log10(changes_of(arm).get("tracking_alpha", 0.01) / 0.01)
    steep = {"bn-wn": 0.55, "bn-batch": 0.35, "ln-wn": 0.3}.get(arm.base, 0.2)
    fall = 0 if arm.base == "bn-wn" else 0.06 * max(0, doublings - 3) ** 2
    return float(max(0.05, level * (1 + steep * doublings - fall)))


def synthetic_results(
    study: Study,
    *,
    is_missing: Callable[[StudyRun], bool] = lambda run: False,
    level: Callable[[Arm], float] = planted_level,
    noise: float = 0.15,
    root: Path = Path("nowhere"),
) -> StudyResults:
    """`noise` is the standard deviation between seeds, as a share of the level."""
    rng = np.random.default_rng(0)
    grid = np.array(study.grid)
    done = grid / study.total_decisions
    talent = {game: rng.lognormal(0, 0.5) for game in study.games}
    heights = {arm.name: level(arm) for arm in study.arms}
    bounds = {game: _random_and_best(game) for game in study.games}
    there, returns, missing = [], [], []
    for run in study.runs:
        height = heights[run.arm] * talent[run.game] * (1 + noise * rng.normal())
        score = height * (1 - np.exp(-3 * done)) * (1 + 0.08 * rng.normal(size=len(grid)))
        if is_missing(run):
            missing.append(run)
            continue
        low, high = bounds[run.game]
        there.append(run)
        returns.append(low + score * (high - low))
    frame = pl.concat(
        [
            _rows(study, there, f"{study.metric}/return", grid, np.array(returns)),
            _rows(study, there, "train/loss", grid[:1], np.ones((len(there), 1))),
        ]
    )
    return StudyResults(study, frame.lazy(), tuple(missing), root)


def with_diagnostics(results: StudyResults) -> StudyResults:
    """Dormant units and ranks too; with batch statistics, pooled ranks are the higher ones."""
    study, rng = results.study, np.random.default_rng(1)
    grid = np.linspace(0.1, 1, 10)
    decisions = (grid * study.total_decisions).astype(int)
    gone = set(results.missing)
    runs = [run for run in study.runs if run not in gone]
    levels = np.array([LEVEL[study.arm(run.arm).base] for run in runs])
    by_batch = np.array([study.arm(run.arm).base.startswith("bn") for run in runs])
    shape = (len(runs), len(grid))
    rank = 300 * levels[:, None] * np.exp(-grid) * rng.lognormal(0, 0.2, shape)
    values = {
        "dormant_0.025": 0.5 * (1 - levels[:, None]) * grid * rng.lognormal(0, 0.2, shape),
        "one_batch_effective_rank": rank,
        "one_batch_srank": 1.5 * rank,
        "effective_rank": rank * np.where(by_batch, 1.2, 1)[:, None],
        "srank": 1.5 * rank * np.where(by_batch, 1.2, 1)[:, None],
    }
    rows = [_rows(study, runs, f"diagnostics/{k}", decisions, v) for k, v in values.items()]
    return replace(results, table=pl.concat([results.frame, *rows]).lazy())


def with_bootstrap_diagnostics(results: StudyResults) -> StudyResults:
    """What is measured of the bootstrap forward: max-Q in every arm, mismatch with BatchNorm."""
    study, rng = results.study, np.random.default_rng(2)
    grid = np.linspace(0.1, 1, 10)
    decisions = (grid * study.total_decisions).astype(int)

    def rows(name: str, height: float, runs: list[StudyRun]) -> pl.DataFrame:
        values = height * (0.5 + grid) * rng.lognormal(0, 0.2, (len(runs), len(grid)))
        return _rows(study, runs, f"diagnostics/bootstrap/{name}", decisions, values)

    runs = list(study.runs)
    with_batchnorm = [run for run in runs if study.arm(run.arm).base.startswith("bn")]
    added = [
        rows("max_q", 3.0, runs),
        rows("conv1/mean_shift", 0.2, with_batchnorm),
        rows("conv1/mean_shift_floor", 0.1, with_batchnorm),
        rows("greedy_changed", 0.1, with_batchnorm),
    ]
    return replace(results, table=pl.concat([results.frame, *added]).lazy())


def _random_and_best(game: str) -> tuple[float, float]:
    return _human_score(canonical_name(game), "wang2016") or (0.0, 10.0)


def _rows(study: Study, runs: list[StudyRun], metric: str, decisions, values) -> pl.DataFrame:
    """`values` is runs × decisions."""
    frames_per_decision = 4 if study.games[0].startswith("atari/") else 1
    names = {game: canonical_name(game) for game in study.games}
    times = np.tile(decisions, len(runs))
    return pl.DataFrame(
        {
            "study": [study.name] * times.size,
            "arm": np.repeat([run.arm for run in runs], len(decisions)),
            "game": np.repeat([names[run.game] for run in runs], len(decisions)),
            "seed": np.repeat([run.seed for run in runs], len(decisions)),
            "metric": [metric] * times.size,
            "decision": times,
            "frame": times * frames_per_decision,
            "value": values.ravel(),
        },
        schema=SCHEMA,
    )


def normalised(
    results: StudyResults, arm: str, table: str = "wang2016", allow_missing: bool = False
) -> Scores:
    """One arm by itself: human-normalised on Atari, relative to the reference elsewhere."""
    scores = collect(results, arm, allow_missing=allow_missing)
    if results.study.games[0].startswith("atari/"):
        return human_normalised(scores, table)
    name = results.study.reference
    return reference_normalised(scores, collect(results, name, allow_missing=allow_missing), name)
