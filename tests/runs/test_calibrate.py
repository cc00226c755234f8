"""Statistics for acting alone, re-estimated from fresh rollouts."""

import numpy as np
import pytest
import torch

from bnmodes.agents.registry import AGENTS
from bnmodes.envs.registry import make_env
from bnmodes.errors import UsageError
from bnmodes.protocol import BATCH, RUNNING, explain
from bnmodes.runs.calibrate import _REPLACE, _evaluating, calibrate, calibrated_agent
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from helpers.run_specs import make_pqn_spec, make_small_actor_critic_spec
from helpers.settings import settings_of


@pytest.fixture(autouse=True)
def _short_rollouts(monkeypatch):
    monkeypatch.setattr("bnmodes.runs.calibrate._DECISIONS", 20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> RunFolder:
    path = tmp_path_factory.mktemp("calibrate") / "run"
    return train(make_pqn_spec(arm="bn-batch", total_decisions=96), path, show_progress=False)


def buffers(agent):
    return {name: t.clone() for name, t in agent.networks["online"].named_buffers()}


def test_a_calibrated_agent_acts_as_with_the_statistics_of_the_very_rows():
    """On the rows that it was calibrated on, running statistics are then the batch's own."""
    settings = settings_of("pqn", "bn-batch")
    env = make_env("minatar/breakout", 64, seed=3)
    agent = AGENTS["pqn"].build(settings, env.spec, seed=0, total_decisions=100)
    obs = env.reset()
    for _ in range(20):
        obs = env.step(np.random.default_rng(0).integers(env.spec.num_actions, size=64)).obs
    rows = torch.from_numpy(obs)
    network = agent.networks["online"]
    with torch.no_grad():
        wanted, before = network(rows, BATCH), network(rows, RUNNING)
    with _evaluating(agent, _REPLACE):
        agent.greedy(obs)
    with torch.no_grad():
        found = network(rows, RUNNING)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(before, wanted, rtol=1e-2, atol=1e-3)
    assert agent.settings == settings, "its declared protocol is back"


def test_the_run_keeps_its_networks_and_the_calibrated_ones_beside_them(folder):
    before, _ = folder.networks()
    said: list[str] = []
    found = calibrate(folder, rows=100, games=6, seed=0, say=said.append)
    assert said[0] == "running statistics: 0 of 6 games played"
    for begun in ("batch statistics: ", "fresh rows: 0 of ", "calibrated statistics: "):
        assert any(line.startswith(begun) for line in said), said
    after, _ = folder.networks()
    for name, tensor in before["online"].items():
        assert torch.equal(tensor, after["online"][name])
    assert {source: len(returns) for source, returns in found.returns.items()} == {
        "running": 6, "batch": 6, "calibrated": 6,
    }  # fmt: skip
    env = make_env("minatar/breakout", 1, seed=0)
    agent = calibrated_agent(folder, env)
    assert agent.greedy(env.reset()).shape == (1,), "one environment is enough"
    changed = [
        name for name, t in buffers(agent).items() if not torch.equal(t, before["online"][name])
    ]
    assert changed
    for name, parameter in agent.networks["online"].named_parameters():
        assert torch.equal(parameter, before["online"][name])


def test_the_protocol_declares_where_evaluates_statistics_come_from(folder):
    found = calibrate(folder, rows=100, games=4, seed=0)
    said = explain(found.protocol, found.offered)
    (evaluate,) = (line for line in said.splitlines() if line.startswith("evaluate"))
    assert "1 × evaluation" in evaluate
    assert "calibrated: those of calibrate_evaluate" in evaluate
    (source,) = (line for line in said.splitlines() if line.startswith("calibrate_evaluate"))
    assert "100 × fresh-rollout" in source


def test_the_same_seed_gives_the_same_calibration(folder):
    first, again = (calibrate(folder, rows=64, games=4, seed=5) for _ in range(2))
    for source, returns in first.returns.items():
        assert returns.tolist() == again.returns[source].tolist()


def test_networks_without_batchnorm_and_too_few_rows_are_refused(folder, tmp_path):
    with pytest.raises(UsageError, match="must be at least 2"):
        calibrate(folder, rows=1, games=4, seed=0)
    spec = make_pqn_spec(arm="ln", total_decisions=48)
    other = train(spec, tmp_path / "ln", show_progress=False)
    with pytest.raises(UsageError, match="has no BatchNorm"):
        calibrate(other, rows=10, games=4, seed=0)
    with pytest.raises(UsageError, match="is not calibrated"):
        calibrated_agent(other, make_env("minatar/breakout", 1, seed=0))


def test_an_actor_critics_encoder_and_policy_are_both_calibrated(tmp_path):
    spec = make_small_actor_critic_spec("xqc", total_decisions=40)
    folder = train(spec, tmp_path / "xqc", show_progress=False)
    before, _ = folder.networks()
    found = calibrate(folder, rows=16, games=2, seed=0)
    assert set(found.returns) == {"running", "batch", "calibrated"}
    agent = calibrated_agent(folder, make_env("minatar/breakout", 1, seed=0))
    moved = {
        network
        for network, module in agent.networks.items()
        for name, tensor in module.named_buffers()
        if not torch.equal(tensor, before[network][name])
    }
    assert len(moved) == 2
