"""A run whose networks are no longer finite numbers ends, says so, and is scored as declared."""

import json

import pytest

from bnmodes.agents.registry import AGENTS
from bnmodes.analysis.scores import collect, judge_diverged
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.envs.registry import make_env
from bnmodes.runs.divergence import networks_are_finite
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import build_agent, train
from bnmodes.studies.registry import STUDIES
from bnmodes.studies.results import gather, run_path
from bnmodes.studies.study import Arm
from helpers.run_specs import make_pqn_spec, make_small_actor_critic_spec, make_spec
from helpers.small_study import FAST, small_study

SPECS = {
    "c51": make_spec("probe/chain", "none", learning_rate=1e30),
    "pqn": make_pqn_spec("probe/chain", "none", learning_rate=1e30),
    "td3": make_small_actor_critic_spec("td3", env="probe/chain", learning_rate=1e30),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_new_agents_networks_are_finite(agent):
    spec = SPECS.get(agent) or make_small_actor_critic_spec(agent, env="probe/chain")
    env = make_env(spec.env, spec.settings.env_rows, 0)
    networks = build_agent(spec, env).networks
    assert networks_are_finite(networks)
    next(next(iter(networks.values())).parameters()).data[0] = float("nan")
    assert not networks_are_finite(networks)


@pytest.mark.parametrize("agent", SPECS)
def test_a_diverging_run_ends_with_its_last_finite_decision(agent, tmp_path):
    spec = SPECS[agent]
    folder = train(spec, tmp_path)
    rows, completion = folder.metrics(), folder.completion
    assert completion.diverged
    assert rows[-1]["kind"] == "diverged"
    assert completion.last_finite_decision == rows[-1]["last_finite_decision"]
    assert completion.last_finite_decision < completion.decision == rows[-1]["decision"]
    assert completion.decision < spec.total_decisions
    scored = [row["decision"] for row in rows if row["kind"] in ("evaluation", "test")]
    assert all(decision <= completion.last_finite_decision for decision in scored)
    assert folder.damage() is None
    assert "NaN" not in folder.metrics_path.read_text()


def test_a_stopped_and_resumed_diverging_run_is_the_same(tmp_path, train_in_parts):
    whole = train(SPECS["c51"], tmp_path / "whole")
    parts = train_in_parts(SPECS["c51"], tmp_path / "parts", (40, whole.completion.decision - 1))
    assert parts.metrics_path.read_bytes() == whole.metrics_path.read_bytes()
    assert parts.completion.last_finite_decision == whole.completion.last_finite_decision


def test_a_diverged_run_is_told_and_scored_never_dropped(tmp_path, run, monkeypatch):
    study = small_study(
        arms=(Arm("C51", "none", changes=FAST),
              Arm("wild", "none", changes=FAST | {"learning_rate": 1e30})),
        games=("probe/chain",), seeds=(0,), total_decisions=300,
    )  # fmt: skip
    monkeypatch.setitem(STUDIES, "small", study)
    for one in study.runs:
        train(one.spec, run_path(tmp_path, one))
    results = gather(study, tmp_path)
    wild = study.runs[1]
    assert results.missing == ()
    assert list(results.diverged) == [wild]
    judged, diverged = judge_diverged({arm.name: collect(results, arm.name) for arm in study.arms})
    assert diverged == [("wild", "probe/chain", 0)]
    assert judged["wild"].values.max() == judged["C51"].values.min()
    StudyNumbers(results)
    _, out, _ = run("study", "status", "small", "--out", tmp_path)
    assert "diverged" in out.splitlines()[0]
    code, out, _ = run("study", "report", "small", "--out", tmp_path)
    assert code == 0
    assert "nan" not in out.lower()


def test_train_says_that_a_run_diverged(tmp_path, run):
    code, out, _ = run(
        "train", "c51", "--env", "probe/chain", "--learning-rate", "1e30", "--total-decisions", 200,
        "--learning-starts-decisions", 40, "--record-every-decisions", 20, "--out", tmp_path / "x",
    )  # fmt: skip
    assert code == 0
    assert "diverged: the networks held numbers that are not finite" in out
    assert json.loads((tmp_path / "x" / "done.json").read_text())["last_finite_decision"] >= 40
    assert RunFolder(tmp_path / "x").finished
