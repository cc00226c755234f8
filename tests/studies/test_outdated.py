"""Runs from before a default, or an agent's arithmetic, changed are never taken for new ones."""

import json
from dataclasses import replace

import pytest

from bnmodes.agents.registry import AGENTS
from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.spec import make_spec, spec_from_json
from bnmodes.runs.stopping import StopRequest
from bnmodes.studies import registry
from bnmodes.studies.launch.local import LocalLauncher
from bnmodes.studies.launch.worker_command import WorkerOptions
from bnmodes.studies.results import gather, run_path
from bnmodes.studies.schedule import run_study
from helpers.finished import mark_finished
from helpers.small_study import small_study

STUDY = small_study(seeds=(0,), games=("minatar/breakout",))


def write_finished(root, run, returns=1.0, **stored):
    folder = RunFolder(run_path(root, run))
    folder.path.mkdir(parents=True)
    spec = run.spec.to_json()
    spec["settings"] |= stored
    folder.spec_path.write_text(json.dumps({"spec": spec, "versions": {}, "python": "3.11"}))
    for decision in STUDY.grid:
        folder.metrics_file.append(
            {"kind": "evaluation", "decision": decision, "frame": decision, "return": returns}
        )
    mark_finished(folder.path)


@pytest.fixture
def root(tmp_path):
    """One run as declared, and one from when the default of γ was another."""
    new, old = STUDY.runs
    write_finished(tmp_path, new)
    write_finished(tmp_path, old, returns=1e6, gamma=0.9)
    return tmp_path


def test_a_run_of_another_default_is_named_and_never_pooled(root):
    results = gather(STUDY, root)
    assert results.missing == (STUDY.runs[1],)
    assert results.outdated == {STUDY.runs[1]: "settings.gamma is 0.9 there, 0.99 here"}
    assert results.frame["value"].max() == 1.0


def test_a_schedule_refuses_it_before_anything_is_run(root):
    with pytest.raises(UsageError, match=r"seed 0\) holds another .*settings\.gamma is 0\.9 there"):
        run_study(STUDY, root, LocalLauncher(1, WorkerOptions()), StopRequest())


def test_commands_name_it(run, root, monkeypatch):
    monkeypatch.setitem(registry.STUDIES, "small", STUDY)
    _, out, _ = run("study", "status", "small", "--out", root)
    assert out.splitlines()[2].split()[-5:] == ["0", "0", "0", "0", "1"]
    assert "settings.gamma is 0.9 there, 0.99 here" in out
    code, out, _ = run("study", "report", "small", "--out", root)
    assert code == 2
    assert "settings.gamma is 0.9 there" in out
    assert run("study", "report", "small", "--out", root, "--allow-missing")[0] == 0
    page = (root / "small.html").read_text()
    assert "settings.gamma is 0.9 there, 0.99 here" in page
    assert run("study", "run", "small", "--out", root)[0] == 2


def test_a_run_with_a_setting_that_is_gone_is_named_by_it(tmp_path):
    write_finished(tmp_path, STUDY.runs[0], momentum=0.9)
    with pytest.raises(UsageError, match=r"unknown fields \['momentum'\]"):
        gather(STUDY, tmp_path)


def test_an_agents_revision_is_in_the_specification_and_in_the_hash(monkeypatch):
    before = make_spec("c51", "minatar/breakout")
    older = before.to_json()
    del older["agent_revision"]
    assert spec_from_json(older).agent_revision == 1, "from before there were revisions"
    revised = replace(AGENTS["c51"], revision=before.agent_revision + 1)
    monkeypatch.setitem(AGENTS, "c51", revised)
    after = make_spec("c51", "minatar/breakout")
    assert after.agent_revision == before.agent_revision + 1
    assert after.content_hash not in (before.content_hash, spec_from_json(older).content_hash)


def test_a_trained_run_carries_the_revision(run, tmp_path, monkeypatch):
    monkeypatch.setitem(AGENTS, "c51", replace(AGENTS["c51"], revision=7))
    options = ("--total-decisions", 20, "--evaluation.episodes", 1, "--replay-capacity", 100)
    command = ("train", "c51", "--env", "probe/chain", "--out", tmp_path / "run", *options)
    assert run(*command)[0] == 0
    assert RunFolder(tmp_path / "run").spec().agent_revision == 7
