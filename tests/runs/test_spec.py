import json
from dataclasses import dataclass, field, replace

import pytest

from bnmodes.agents.c51 import C51Settings
from bnmodes.agents.registry import AGENTS
from bnmodes.errors import UsageError
from bnmodes.runs.spec import DiagnosticsSettings, EvaluationSettings, make_spec, spec_from_json


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"total_decisions": 0}, "total_decisions is 0, but must be at least 1."),
        ({"record_every_decisions": 0}, "record_every_decisions is 0, but must be at least 1."),
        ({"seed": -1}, "seed is -1, but must be at least 0."),
        (
            {"evaluation": EvaluationSettings(every_decisions=0)},
            "evaluation.every_decisions is 0, but must be at least 1.",
        ),
        (
            {"evaluation": EvaluationSettings(episodes=0)},
            "evaluation.episodes is 0, but must be at least 1.",
        ),
        (
            {"evaluation": EvaluationSettings(epsilon=1.5)},
            "evaluation.epsilon is 1.5, but must be between 0 and 1.",
        ),
        (
            {"diagnostics": DiagnosticsSettings(points=-1)},
            "diagnostics.points is -1, but must be at least 0.",
        ),
        ({"changes": {"gamma": 1.5}}, "gamma is 1.5, but must be between 0 and 1."),
        ({"changes": {"norm.bn_epsilon": 0.0}}, "norm.bn_epsilon is 0.0, but must be above 0."),
    ],
)
@pytest.mark.parametrize("agent", ["c51", "pqn"])
def test_a_run_out_of_bounds_is_refused_by_the_names_that_a_user_gives(agent, given, sentence):
    with pytest.raises(UsageError) as refused:
        make_spec(agent, "minatar/breakout", "bn-batch", **given).validate()
    assert str(refused.value) == sentence


def test_what_is_not_said_is_the_agents_default_on_that_suite():
    atari, minatar = (make_spec("c51", env) for env in ("atari/pong", "minatar/breakout"))
    assert (atari.env, atari.arm, atari.total_decisions) == ("atari/Pong", "bn-batch", 1_250_000)
    assert (minatar.total_decisions, minatar.evaluation.every_decisions) == (300_000, 25_000)
    assert minatar.settings.torso == "minatar"
    assert make_spec("td3", "minatar/breakout").evaluation.epsilon == 0.0
    assert make_spec("c51", "minatar/breakout").evaluation.epsilon == 0.001


def test_a_hash_tells_apart_what_a_result_depends_on_and_nothing_else():
    spec = make_spec("c51", "minatar/breakout", "bn-tracked")
    others = [
        replace(spec, arm="bn-tracked-changed"),
        replace(spec, seed=1),
        *(
            make_spec("c51", "minatar/breakout", "bn-tracked", changes=changes)
            for changes in (
                {"protocol.bootstrap.track": 0.1},
                {"norm.bn_epsilon": 1e-3},
                {"projection.radius": "initial"},
                {"calibrate_target": True},
                {"gamma": 0.9},
            )
        ),
        make_spec("c51", "minatar/breakout", "bn-running"),
        make_spec("c51", "probe/chain", "bn-tracked"),
    ]
    hashes = {each.content_hash for each in (spec, *others)}
    assert len(hashes) == 1 + len(others)
    same = make_spec("c51", "MinAtar/Breakout", "bn-tracked", changes={"gamma": 0.99})
    assert same.content_hash == spec.content_hash


def test_a_setting_younger_than_a_runs_file_takes_its_default_and_the_hash_stays():
    spec = make_spec("xqc", "minatar/breakout")
    older = spec.to_json()
    del older["settings"]["evaluate_sampled"], older["settings"]["protocol"]["calibrate"]
    assert spec_from_json(older) == spec
    assert spec_from_json(older).content_hash == spec.content_hash


def test_a_setting_that_is_not_known_here_is_told():
    stored = make_spec("c51", "minatar/breakout").to_json()
    stored["settings"]["momentum"] = 0.9
    del stored["seed"]
    with pytest.raises(UsageError, match=r"lacks \['seed'\]: it was written by another version"):
        spec_from_json(stored)
    stored["seed"] = 0
    with pytest.raises(UsageError, match=r"C51Settings has unknown fields \['momentum'\]"):
        spec_from_json(stored)


def test_settings_with_tuples_and_dicts_survive_a_file(monkeypatch):
    @dataclass(frozen=True)
    class Settings(C51Settings):
        widths: tuple[int, ...] = (3, 4)
        names: dict[str, int] = field(default_factory=dict)

    monkeypatch.setitem(AGENTS, "c51", replace(AGENTS["c51"], settings=Settings))
    spec = make_spec("c51", "probe/chain", changes={"widths": (5,), "names": {"a": 1}})
    again = spec_from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    assert again.settings.widths == (5,)


def test_fire_on_life_loss_is_on_where_a_life_loss_is_told_and_in_the_hash():
    spec = make_spec("c51", "atari/Breakout")
    assert spec.fire_on_life_loss
    for env in ("atari/Breakout-sticky", "minatar/breakout"):
        assert not make_spec("c51", env).fire_on_life_loss
        with pytest.raises(UsageError, match="Atari games without -sticky, but env is"):
            make_spec("c51", env, fire_on_life_loss=True).validate()
    without = make_spec("c51", "atari/Breakout", fire_on_life_loss=False)
    assert without.content_hash != spec.content_hash
    noops = make_spec("c51", "atari/Breakout", noops_on_life_loss=True)
    noops.validate()
    assert noops.content_hash not in (spec.content_hash, without.content_hash)
    with pytest.raises(UsageError, match="are before FIRE"):
        replace(without, noops_on_life_loss=True).validate()
    older = spec.to_json()
    del older["fire_on_life_loss"], older["noops_on_life_loss"]
    assert spec_from_json(older) == without, "runs from before there was the option had none"
