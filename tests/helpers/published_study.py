"""A small study for tests of publishing and importing, and ways to change what was published."""

import json

import polars as pl

from bnmodes.files import sha256_of
from bnmodes.runs.completion import checksum_of
from bnmodes.runs.spec import EvaluationSettings
from helpers.small_study import small_study

STUDY = small_study(
    games=("minatar/breakout",),
    total_decisions=120,
    evaluation=EvaluationSettings(every_decisions=60, episodes=10, epsilon=1.0),
)


def everything_in(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def rewrite_spec(folder, **described):
    """As if the run had been begun so; None: without it."""
    written = json.loads(folder.spec_path.read_text()) | described
    folder.spec_path.write_text(
        json.dumps({name: value for name, value in written.items() if value is not None})
    )
    done = json.loads(folder.done_path.read_text())
    done["sha256"]["spec.json"] = sha256_of(folder.spec_path)
    del done["checksum"]
    folder.done_path.write_text(json.dumps(done | {"checksum": checksum_of(done)}))


def lose_table(folder):
    (folder / "runs.parquet").unlink()


def another_study(folder):
    reseal(folder, study="demo")


def change_runs(folder, change):
    path = folder / "runs.parquet"
    pl.read_parquet(path).with_columns(change).write_parquet(path)
    reseal(folder)


def reseal(folder, **changes):
    """As if it had been published so."""
    data = json.loads((folder / "study.json").read_text()) | changes
    del data["checksum"]
    data["sha256"] = {name: sha256_of(folder / name) for name in data["sha256"]}
    (folder / "study.json").write_text(json.dumps(data | {"checksum": checksum_of(data)}))
