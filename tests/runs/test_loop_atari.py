"""Real Atari games through the whole loop, at full network size and reduced length."""

from dataclasses import replace

import numpy as np
import pytest

from bnmodes.agents.c51 import C51Agent
from bnmodes.envs import atari
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.stopping import Stopped
from helpers.atari_specs import atari_specs
from helpers.run_specs import make_spec

pytestmark = [pytest.mark.slow, pytest.mark.numeric]


def atari_spec(game, suite="atari", **changes):
    spec = make_spec(
        f"{suite}/{game}",
        "bn-batch",
        total_decisions=2_500,
        replay_capacity=2_500,
        learning_starts_decisions=1_000,
        target_period_decisions=500,
        updates_per_decision=0.05,
        epsilon_decay_fraction=1.0,
    )
    return replace(
        spec,
        record_every_decisions=500,
        evaluation=replace(spec.evaluation, every_decisions=2_500, episodes=2, epsilon=1.0),
        **changes,
    )


def test_breakout_trains_with_lives_and_reports_raw_whole_games(tmp_path):
    folder = train(atari_spec("Breakout"), tmp_path)
    rows = folder.metrics()
    training = [row for row in rows if row["kind"] == "train"]
    games = sum(row["games"] for row in training)
    # Five lives of about 35 decisions each: with a game per life there would be five times more.
    assert 5 <= games <= 25
    assert np.isfinite([row["loss"] for row in training if "loss" in row]).all()
    assert rows[-1]["kind"] == "evaluation"
    assert len(rows[-1]["returns"]) == 2
    assert rows[-1]["frame"] == 10_000


@pytest.mark.parametrize("suite", ["atari", "atari-small"])
def test_pong_reports_raw_returns_and_resumes_to_the_byte(
    suite, tmp_path, train_in_parts, monkeypatch
):
    monkeypatch.setattr(atari, "RESEED_AFTER", 600)
    spec = atari_spec("Pong", suite)
    whole = train(spec, tmp_path / "whole")
    parts = train_in_parts(spec, tmp_path / "parts", (700, 1_500))
    metrics = [(folder.path / "metrics.jsonl").read_bytes() for folder in (whole, parts)]
    assert metrics[0] == metrics[1]
    rows = parts.metrics()
    assert all(-21 <= r <= -15 for r in rows[-1]["returns"])
    returns = [row["return"] for row in rows if row["kind"] == "train" and "return" in row]
    assert returns
    assert all(-21 <= r <= -15 for r in returns)


@pytest.mark.parametrize("agent", ["pqn", "td3", "xqc", "mrq"])
def test_every_agent_resumes_on_atari_to_the_byte(agent, tmp_path, train_in_parts, monkeypatch):
    monkeypatch.setattr(atari, "RESEED_AFTER", 50)
    spec = atari_specs()[agent]
    whole = train(spec, tmp_path / "whole")
    step = spec.settings.num_envs
    stops = [round(share * spec.total_decisions / step) * step for share in (0.3, 0.6, 0.9)]
    parts = train_in_parts(spec, tmp_path / "parts", stops)
    assert parts.completion.resumes == 3
    metrics = [folder.metrics_path.read_bytes() for folder in (whole, parts)]
    assert metrics[0] == metrics[1]
    assert not any(row["kind"] == "resume" for row in parts.metrics())


def test_where_the_emulator_plays_differently_the_run_records_its_new_game(
    tmp_path, stop_at, monkeypatch
):
    spec = replace(atari_spec("Pong"), total_decisions=900)
    begun = []
    begin = C51Agent.begin
    monkeypatch.setattr(C51Agent, "begin", lambda self, obs: (begun.append(obs), begin(self, obs)))
    stop_at(300)
    with pytest.raises(Stopped):
        train(spec, tmp_path)
    monkeypatch.setattr(atari, "FRAME_SKIP", 3)
    train(spec, tmp_path)
    rows = RunFolder(tmp_path).metrics()
    resumed = [row for row in rows if row["kind"] == "resume"]
    assert [(row["decision"], row["new_games"]) for row in resumed] == [(300, 1)]
    assert len(begun) == 2, "the replay is told of the new game, so no stack crosses into it"
    assert not begun[1][0, :3].any(), "a new game's first stack is black but for its last frame"
