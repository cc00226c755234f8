"""Short real runs that must beat the random policy clearly."""

from dataclasses import replace

import numpy as np
import pytest

from bnmodes.runs.loop import train
from bnmodes.runs.spec import EvaluationSettings
from helpers.run_specs import make_pqn_spec, make_spec
from helpers.settings import settings_of

pytestmark = [pytest.mark.slow, pytest.mark.numeric, pytest.mark.learns]


def test_c51_beats_the_random_policy_on_minatar_breakout(seed, tmp_path):
    """The random policy averages 0.5 bricks a game; 8,000 decisions suffice for a paddle that
    goes to the ball."""
    spec = replace(
        make_spec(arm="bn-batch", total_decisions=8_000, seed=seed, replay_capacity=8_000,
                  learning_starts_decisions=500, target_period_decisions=250,
                  learning_rate=1e-3, epsilon_decay_fraction=0.2, batch_size=32,
                  updates_per_decision=1.0),
        record_every_decisions=500,
        evaluation=EvaluationSettings(every_decisions=8_000, episodes=50),
    )  # fmt: skip
    folder = train(spec, tmp_path / "trained")
    trained = folder.metrics()[-1]["returns"]
    random_games = next(row for row in folder.metrics() if row["kind"] == "train")
    assert random_games["epsilon"] > 0.5
    assert random_games["return"] < 1.0
    assert np.mean(trained) > 2.0


@pytest.mark.parametrize("arm", ["ln", "bn-batch"])
def test_pqn_beats_the_random_policy_on_minatar_breakout(arm, seed, tmp_path):
    spec = replace(
        make_pqn_spec(arm=arm, total_decisions=60_000),
        seed=seed,
        settings=settings_of("pqn", arm, learning_rate=1e-3, epsilon_decay_fraction=0.2),
        record_every_decisions=6_000,
        evaluation=EvaluationSettings(every_decisions=60_000, episodes=3, test_bins=10),
    )
    rows = train(spec, tmp_path).metrics()
    tests = [row["return"] for row in rows if row["kind"] == "test" and "return" in row]
    random_games = next(row for row in rows if row["kind"] == "train")["return"]
    assert random_games < 1.0
    assert np.mean(tests[-2:]) > 2.0
