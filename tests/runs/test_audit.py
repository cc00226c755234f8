"""`bnmodes audit RUN` on real runs, and on forwards that do not do what they declare."""

from dataclasses import replace

import pytest

from bnmodes.agents.actor_critic import ActorCritic
from bnmodes.agents.c51 import C51Agent
from bnmodes.agents.mrq import MRQAgent
from bnmodes.agents.value_agent import ValueAgent
from bnmodes.errors import UsageError
from bnmodes.runs.audit import audit_run
from bnmodes.runs.loop import train
from bnmodes.runs.stopping import Stopped
from helpers.run_specs import make_pqn_spec, make_small_actor_critic_spec, make_spec

pytestmark = pytest.mark.numeric


def short(spec):
    return replace(spec, total_decisions=100)


@pytest.mark.parametrize(
    ("spec", "declared"),
    [
        (
            make_spec(arm="bn-tracked"),
            {
                "predict": "online, batch, writes",
                "bootstrap": "target, running+batch, writes",
                "act": "online, running",
                "evaluate": "online, running",
            },
        ),
        (
            make_pqn_spec(arm="bn-act-only"),
            {
                "predict": "online, batch, writes",
                "bootstrap": "online, running",
                "act": "online, batch",
                "evaluate": "online, batch",
            },
        ),
        (make_spec(arm="bn-batch"), {"bootstrap": "target, batch"}),
        (make_spec(arm="ln"), {"predict": "online, none"}),
        (
            make_spec(arm="bn-running", calibrate_target=True),
            {"calibrate": "target, batch, writes", "bootstrap": "target, running"},
        ),
    ],
    ids=["c51 tracked", "pqn act-only", "c51 batch", "c51 ln", "c51 calibrated"],
)
def test_what_is_declared_is_observed(spec, declared, tmp_path):
    audits, notes = audit_run(train(short(spec), tmp_path), seed=0)
    assert notes == []
    roles = ["predict", "bootstrap", "act", "evaluate"]
    assert [found.role for found in audits] == roles + ["calibrate"] * ("calibrate" in declared)
    for found in audits:
        assert found.agrees, found
        assert found.observed == declared.get(found.role, found.observed)


CRITIC, POLICY = "online critic", "online critic and online actor"
ACTING = {"act": f"{POLICY}, running", "evaluate": f"{POLICY}, running"}
XQC = ACTING | {
    "predict": f"{CRITIC}, batch, writes",
    "improve": "online actor, batch, writes",
    "improve_critic": f"{CRITIC}, running",
    "bootstrap_actor": f"{POLICY}, running",
}
ALONE = {
    "predict": "online critic, none",
    "bootstrap": "target critic, none",
    "act": "online critic and online actor, none",
    "evaluate": "online critic and online actor, none",
    "improve": "online actor, none",
    "improve_critic": "online critic, none",
    "bootstrap_actor": "target critic and target actor, none",
}
MODEL = {"model": "online critic and model, none", "model_target": "target critic, none"}


@pytest.mark.parametrize(
    ("agent", "arm", "expected"),
    [
        ("xqc", "bn-joined", XQC | {"bootstrap": "target critic, batch"}),
        ("xqc", "bn-separate", XQC | {"bootstrap": "target critic, batch"}),
        ("xqc", "bn-running", XQC | {"bootstrap": "target critic, running"}),
        ("xqc", "xqc-no-target", XQC | {"bootstrap": "online critic, batch"}),
        ("crossq", "batchnorm", XQC | {"bootstrap": "online critic, batch"}),
        ("td3", "none", ALONE),
        ("mrq", "ln", ALONE | MODEL),
    ],
)
def test_every_role_of_an_actor_critic_is_observed_as_declared(agent, arm, expected, tmp_path):
    folder = train(make_small_actor_critic_spec(agent, arm=arm, total_decisions=60), tmp_path)
    audits, _ = audit_run(folder, seed=0)
    assert {found.role: found.declared for found in audits} == expected
    assert {found.role: found.observed for found in audits} == expected
    rows = {found.role: found.rows for found in audits}
    joined = arm in ("bn-joined", "xqc-no-target", "batchnorm")
    assert rows["bootstrap"] == ("16 × joined" if joined else "8 × replay-next-obs")


def test_batch_renormalisation_reads_stored_moments_once_it_is_warm(tmp_path):
    for warmup, statistics in ((1_000, "batch"), (5, "running+batch")):
        spec = make_small_actor_critic_spec(
            "crossq", arm="batchrenorm", total_decisions=60, renorm_warmup_updates=warmup
        )
        audits, _ = audit_run(train(spec, tmp_path / str(warmup)), seed=0)
        found = {audit.role: audit for audit in audits}
        assert found["bootstrap"].observed == f"online critic, {statistics}"
        assert found["predict"].observed == f"online critic, {statistics}, writes"
        assert all(audit.agrees for audit in audits)


def test_a_policy_that_reads_the_target_where_it_declares_online_is_found(tmp_path, monkeypatch):
    folder = train(make_small_actor_critic_spec("td3", total_decisions=60), tmp_path)
    honest = ActorCritic._logits

    def dishonest(self, role, obs, companions=None):
        return honest(self, "bootstrap_actor" if role == "act" else role, obs)

    monkeypatch.setattr(ActorCritic, "_logits", dishonest)
    audits, _ = audit_run(folder, seed=0)
    (found,) = [audit for audit in audits if not audit.agrees]
    assert found.role == "act"
    assert found.observed == "target critic and target actor, none"


def test_a_model_that_learns_from_the_online_encoder_is_found(tmp_path, monkeypatch):
    folder = train(make_small_actor_critic_spec("mrq", total_decisions=60), tmp_path)
    honest = MRQAgent.load_networks

    def dishonest(self, networks):
        honest(self, networks)
        self.encoders["target"] = self.encoders["online"]

    monkeypatch.setattr(MRQAgent, "load_networks", dishonest)
    audits, _ = audit_run(folder, seed=0)
    found = {audit.role: audit for audit in audits}
    assert found["model_target"].declared == "target critic, none"
    assert found["model_target"].observed == "online critic, none"
    assert found["model"].agrees


def as_predict_does(monkeypatch) -> None:
    """The bootstrap runs the online network as predict does, as .train() would leave it."""
    honest = ValueAgent.forward

    def dishonest(self, role, obs, companions=None):
        return honest(self, "predict" if role == "bootstrap" else role, obs)

    monkeypatch.setattr(ValueAgent, "forward", dishonest)


@pytest.mark.parametrize("spec", [make_spec(arm="bn-running"), make_pqn_spec(arm="bn-running")])
def test_a_bootstrap_that_does_something_else_is_found(spec, tmp_path, monkeypatch):
    folder = train(short(spec), tmp_path)
    as_predict_does(monkeypatch)
    audits, _ = audit_run(folder, seed=0)
    (found,) = [audit for audit in audits if not audit.agrees]
    assert found.role == "bootstrap"
    assert found.observed == "online, batch, writes"


def test_a_forward_that_does_something_else_ends_with_code_1(tmp_path, run, monkeypatch):
    train(short(make_spec(arm="bn-running")), tmp_path)
    code, out, _ = run("audit", tmp_path)
    assert code == 0
    assert "not as declared" not in out
    as_predict_does(monkeypatch)
    code, out, _ = run("audit", tmp_path)
    assert code == 1
    assert "not as declared: bootstrap\n" in out
    (line,) = [line for line in out.splitlines() if line.startswith(" bootstrap")]
    assert [cell.strip() for cell in line.split("  ") if cell.strip()] == [
        "bootstrap", "8 × replay-next-obs", "target, running", "online, batch, writes",
    ]  # fmt: skip


def test_an_agent_that_does_not_show_its_forwards_is_refused(tmp_path, monkeypatch):
    folder = train(short(make_spec(arm="ln")), tmp_path)
    with monkeypatch.context() as patch:
        patch.delattr(ValueAgent, "role_forwards")
        with pytest.raises(UsageError, match="c51 does not show its forwards: give its class"):
            audit_run(folder, seed=0)
    honest = C51Agent.role_forwards

    def incomplete(self, transitions, rng):
        return {"act": honest(self, transitions, rng)["act"]}

    monkeypatch.setattr(C51Agent, "role_forwards", incomplete)
    with pytest.raises(UsageError, match="a role 'predict', but the agent's `role_forwards` has"):
        audit_run(folder, seed=0)


def test_a_stopped_run_is_audited_at_its_checkpoint_and_left_as_it_is(tmp_path, run, stop_at):
    spec = short(make_spec(arm="bn-batch"))
    stop_at(70)
    with pytest.raises(Stopped):
        train(spec, tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    code, out, _ = run("audit", tmp_path, "--game-seed", 3)
    assert code == 0
    assert "8 × replay-next-obs" in out
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_what_cannot_be_audited_is_said(tmp_path, run):
    code, _, err = run("audit", tmp_path / "nowhere")
    assert code == 2
    assert "holds no run" in err
