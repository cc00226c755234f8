import json
import subprocess
import sys
from dataclasses import replace

import pytest

from bnmodes.agents.c51 import ARMS
from bnmodes.agents.q_learning import q_learning_protocol, q_learning_protocol_without_batchnorm
from bnmodes.errors import UsageError
from bnmodes.protocol import (
    RUNNING,
    AgentCapabilities,
    Forward,
    Mode,
    alpha,
    explain,
    explain_json,
)
from helpers.settings import settings_of

OFFERED = AgentCapabilities(
    rows={
        "predict": {"replay-obs": 32},
        "bootstrap": {"replay-next-obs": 32},
        "act": {"acting": 1},
        "evaluate": {"evaluation": 10},
    },
    has_target=True,
    has_batchnorm=True,
)


@pytest.mark.parametrize(
    ("text", "weight"), [("0.01", 0.01), ("flax:0.99", 0.01), ("flax:0", 1.0), (0.3, 0.3)]
)
def test_both_momentum_conventions_are_read(text, weight):
    assert alpha(text) == weight


@pytest.mark.parametrize("text", ["fast", "flax:", "torch:0.1", ""])
def test_what_is_no_weight_is_refused(text):
    with pytest.raises(UsageError, match="no update weight"):
        alpha(text)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ({"statistics": "batch", "track": 0.1}, "use running statistics, or drop track"),
        ({"statistics": "none", "track": 0.1}, "use running statistics, or drop track"),
        ({"statistics": "running", "update": 0.1}, "use batch statistics, or track"),
        ({"statistics": "batch", "update": 0.0}, r"outside \(0, 1\]"),
        ({"statistics": "running", "track": 1.5}, r"outside \(0, 1\]"),
        ({"statistics": "batch", "update": float("nan")}, r"outside \(0, 1\]"),
    ],
)
def test_impossible_modes_do_not_exist(mode, words):
    with pytest.raises(UsageError, match=words):
        Mode(**mode)


def test_an_unknown_statistic_is_refused_without_a_type_checker_too():
    code = "from bnmodes.protocol import Mode; Mode(statistics='eval')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "'eval' are unknown: choose batch, running or none" in ended.stderr


BATCH_BOOTSTRAP = q_learning_protocol()
TRACKED = q_learning_protocol(bootstrap=Mode(statistics="running", track=0.1))


def with_role(role, protocol=BATCH_BOOTSTRAP, **changes):
    return replace(protocol, **{role: replace(getattr(protocol, role), **changes)})


CALIBRATED_ONLY = replace(
    settings_of("c51", "bn-anchored", calibrate_target=True).protocol,
    bootstrap=q_learning_protocol(bootstrap=RUNNING).bootstrap,
)
CALIBRATED_OFFERED = settings_of("c51", "bn-anchored", calibrate_target=True).capabilities(10)
"""The next copy would give the target the online running statistics, which nobody updates."""

RUNNING_POLICY = settings_of(
    "xqc",
    **{
        "protocol.act.statistics": "batch",
        "protocol.evaluate.statistics": "batch",
        "protocol.bootstrap_actor.statistics": "batch",
        "protocol.improve": Forward.of(RUNNING, "online", "replay-obs"),
    },
).protocol
POLICY_OFFERED = settings_of("xqc", num_envs=4).capabilities(10)


@pytest.mark.parametrize(
    ("protocol", "offered", "words"),
    [
        (with_role("act", statistics="batch"), OFFERED, "has one row.*more rows"),
        (with_role("act", track=0.1), OFFERED, "one row: drop track"),
        (with_role("act", population="rollout"), OFFERED, "this agent offers acting"),
        (with_role("predict", params="target"), OFFERED, "params must be online"),
        (with_role("evaluate", track=0.1), OFFERED, "drop its track"),
        (with_role("evaluate", statistics="none"), OFFERED, "use batch or running"),
        (q_learning_protocol_without_batchnorm(), OFFERED, "has BatchNorm: use batch or running"),
        (BATCH_BOOTSTRAP, replace(OFFERED, has_batchnorm=False), "no BatchNorm: use none"),
        (BATCH_BOOTSTRAP, replace(OFFERED, has_target=False), "has none: use online"),
        (with_role("predict", update=None), OFFERED, "no forward ever updates"),
        (replace(BATCH_BOOTSTRAP, improve=BATCH_BOOTSTRAP.act), OFFERED, "no role"),
        (CALIBRATED_ONLY, CALIBRATED_OFFERED, "bootstrap reads running statistics of the target"),
        (RUNNING_POLICY, POLICY_OFFERED, "only improve can update them"),
        (
            BATCH_BOOTSTRAP,
            replace(OFFERED, rows={**OFFERED.rows, "improve": {"replay-obs": 32}}),
            "declare its forward",
        ),
    ],
)
def test_what_cannot_mean_anything_is_refused_with_what_to_do(protocol, offered, words):
    with pytest.raises(UsageError, match=words):
        protocol.validate(offered)


def test_batch_statistics_for_acting_are_fine_with_several_environments():
    several = replace(OFFERED, rows={**OFFERED.rows, "act": {"acting": 2}})
    with_role("act", statistics="batch").validate(several)


def test_the_targets_moments_may_come_from_online_writes_alone():
    q_learning_protocol(bootstrap=RUNNING).validate(OFFERED)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("family", ["atari", "minatar", "probe"])
def test_every_arm_is_valid(arm, family):
    settings_of("c51", arm, family).validate(evaluation_rows=10)


def of_arm(arm, **changes):
    return settings_of("c51", arm, **changes).protocol


def test_arms_say_what_their_names_say():
    assert of_arm("bn-batch").bootstrap == Forward(
        params="target", population="replay-next-obs", statistics="batch"
    )
    assert of_arm("bn-running").bootstrap.statistics == "running"
    track = "protocol.bootstrap.track"
    assert of_arm("bn-tracked", **{track: 0.001}).bootstrap.track == 0.001
    assert of_arm("bn-tracked", **{track: "flax:0.9"}).bootstrap.track == 0.1
    assert q_learning_protocol(update=0.1).predict.update == 0.1
    for arm in ("bn-batch", "bn-running", "bn-tracked"):
        assert of_arm(arm).predict == Forward(
            params="online", population="replay-obs", statistics="batch", update=0.01
        )
        assert of_arm(arm).act.statistics == of_arm(arm).evaluate.statistics == "running"
    with pytest.raises(UsageError, match=r"did you mean 'bn-batch'\?\): choose one of"):
        of_arm("bn-bathc")


def test_explain_shows_every_field_of_every_role():
    lines = explain(TRACKED, OFFERED).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["predict", "bootstrap", "act", "evaluate"]
    bootstrap = lines[3]
    for part in ("target", "32 × replay-next-obs", "tracked", "α 0.1 (Flax 0.9)"):
        assert part in bootstrap
    assert "nothing" in lines[4]


def test_explain_json_is_the_declaration_and_both_conventions():
    table = json.loads(explain_json(TRACKED, OFFERED))
    assert table["bootstrap"] == {
        "params": "target",
        "population": "replay-next-obs",
        "moments": "own",
        "rows": 32,
        "statistics": "running",
        "track": 0.1,
        "track_flax_momentum": 0.9,
        "update": None,
        "update_flax_momentum": None,
    }
    assert table["predict"]["update_flax_momentum"] == 0.99
