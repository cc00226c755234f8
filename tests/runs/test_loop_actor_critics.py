"""The actor-critics through the same loop as every agent."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.spec import DiagnosticsSettings, EvaluationSettings
from helpers.run_specs import make_actor_critic_spec, make_small_actor_critic_spec


@pytest.mark.parametrize(
    ("agent", "changes"),
    [
        ("td3", {"evaluate_sampled": True}),
        ("xqc", {"num_envs": 2}),
        ("crossq", {"arm": "batchrenorm", "renorm_warmup_updates": 40}),
        ("mrq", {}),
    ],
)
def test_stopped_and_resumed_equals_never_stopped(agent, changes, tmp_path, train_in_parts):
    spec = make_small_actor_critic_spec(agent, **changes)
    train(spec, tmp_path / "whole")
    train_in_parts(spec, tmp_path / "parts", (10, 66, 120))
    metrics = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "parts")]
    assert metrics[0] == metrics[1]
    whole, parts = (RunFolder(tmp_path / name).networks()[0] for name in ("whole", "parts"))
    assert whole.keys() == parts.keys() >= {"online_critic", "online_actor"}
    for name, network in whole.items():
        assert all(torch.equal(tensor, parts[name][key]) for key, tensor in network.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "game", "changes"),
    [
        ("td3", "Pong-sticky", {}),
        ("xqc", "Pong-sticky", {}),
        ("mrq", "Pong-sticky", {"target_period_updates": 10}),
    ],
)
def test_full_networks_learn_on_atari(agent, game, changes, tmp_path):
    """At the study's network size and settings, but for batches of 32 and a short start."""
    spec = replace(
        make_actor_critic_spec(
            agent, f"atari/{game}", total_decisions=320, batch_size=32, replay_capacity=400,
            learning_starts_decisions=300, updates_per_decision=1.0, **changes,
        ),
        record_every_decisions=80,
        evaluation=EvaluationSettings(every_decisions=320, episodes=1, epsilon=1.0),
        diagnostics=DiagnosticsSettings(points=1),
    )  # fmt: skip
    rows = train(spec, tmp_path).metrics()
    last = [row for row in rows if row["kind"] == "train"][-1]
    assert last["updates"] == 20
    assert np.isfinite([last["loss"], last["predict_q"]]).all()
    (measured,) = [row for row in rows if row["kind"] == "diagnostics"]
    assert len(measured["spectrum"]) == 512
    assert rows[-1]["kind"] == "evaluation"
    assert rows[-1]["frame"] == 1280
