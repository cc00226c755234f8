"""Which runs of an incomplete study can be compared with each other."""

from dataclasses import replace

import polars as pl

from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.studies.results import StudyResults


def comparable(results: StudyResults) -> StudyResults:
    """Arms with any run, and of these only the (game, seed) pairs that every one of them has.

    An aggregate over other games or seeds answers another question, so all arms get the same ones.
    """
    study = results.study
    gone = {(run.arm, run.game, run.seed) for run in results.missing}
    there = {
        arm.name: {
            (game, seed)
            for game in study.games
            for seed in study.seeds
            if (arm.name, game, seed) not in gone
        }
        for arm in study.arms
    }
    arms = [name for name, pairs in there.items() if pairs]
    common = set.intersection(*(there[name] for name in arms)) if arms else set()
    games = [game for game in study.games if any(game == where for where, _ in common)]
    if not games:
        raise UsageError(
            f"no game and seed of study {study.name} has a finished run of every arm: let it run "
            "on, or choose fewer arms."
        )
    kept = study.restricted(arms=arms, games=games)
    left_out = tuple(run for run in kept.runs if (run.game, run.seed) not in common)
    pairs = sorted({(canonical_name(run.game), run.seed) for run in left_out})
    schema = {"game": pl.String, "seed": pl.Int64}
    unwanted = pl.LazyFrame(pairs, schema=schema, orient="row")
    table = results.table.join(unwanted, on=list(schema), how="anti") if pairs else results.table
    return replace(results, study=kept, table=table, missing=left_out)
