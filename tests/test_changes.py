from dataclasses import replace

import pytest

from bnmodes.agents.c51 import C51Settings
from bnmodes.agents.q_learning import q_learning_protocol
from bnmodes.changes import with_changes
from bnmodes.errors import UsageError
from bnmodes.networks.value import NormSettings
from bnmodes.protocol import RUNNING
from helpers.settings import settings_of

BATCH = settings_of("c51", "bn-batch")
TRACK, STATISTICS = "protocol.bootstrap.track", "protocol.bootstrap.statistics"


def test_a_change_reaches_a_field_at_any_depth_and_nothing_else():
    changed = with_changes(BATCH, {"gamma": 0.5, "norm.bn_epsilon": 1e-3, "norm.ln_epsilon": 1e-2})
    norm = replace(BATCH.norm, bn_epsilon=1e-3, ln_epsilon=1e-2)
    assert changed == replace(BATCH, gamma=0.5, norm=norm)
    deepest = with_changes(BATCH, {"protocol.predict.update": 0.5}).protocol
    predict = replace(BATCH.protocol.predict, update=0.5)
    assert deepest == replace(BATCH.protocol, predict=predict)
    assert with_changes(BATCH, {}) == BATCH


def test_the_record_that_is_changed_stays_as_it_was():
    before = C51Settings()
    with_changes(before, {"gamma": 0.5, "norm.kind": "ln"})
    assert before == C51Settings()


@pytest.mark.parametrize("turned", [False, True])
def test_two_changes_that_are_only_valid_together_can_be_given_together(turned):
    """Batch statistics cannot track, and none of the two may come first."""
    together = [(TRACK, 0.1), (STATISTICS, "running")]
    changed = with_changes(BATCH, dict(reversed(together) if turned else together))
    assert changed.protocol.bootstrap.track == 0.1
    assert changed.protocol.bootstrap.statistics == "running"
    with pytest.raises(UsageError, match="use running statistics, or drop track"):
        with_changes(BATCH, {TRACK: 0.1})


def test_a_whole_record_can_be_given_and_changed_further():
    changed = with_changes(BATCH, {TRACK: 0.3, "protocol": q_learning_protocol(RUNNING)})
    assert changed.protocol.bootstrap.track == 0.3
    assert with_changes(BATCH, {"norm": NormSettings(kind="ln")}).norm == NormSettings(kind="ln")


def test_an_optional_float_is_a_weight_that_may_be_given_as_flax_momentum_or_taken_away():
    changed = with_changes(BATCH, {"protocol.predict.update": "flax:0.99"})
    assert changed.protocol.predict.update == 0.01
    assert with_changes(BATCH, {"protocol.predict.update": "0.3"}).protocol.predict.update == 0.3
    tracked = settings_of("c51", "bn-tracked")
    assert with_changes(tracked, {TRACK: None}).protocol.bootstrap.track is None
    with pytest.raises(UsageError, match="no update weight"):
        with_changes(BATCH, {"protocol.predict.update": "fast"})
    with pytest.raises(UsageError, match=r"gamma is 'flax:0\.99', but must be of type float"):
        with_changes(BATCH, {"gamma": "flax:0.99"})


def test_a_whole_number_is_a_float_too():
    changed = with_changes(BATCH, {"updates_per_decision": 2, "protocol.predict.update": 1})
    assert isinstance(changed.updates_per_decision, float)
    assert isinstance(changed.protocol.predict.update, float)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gama": 0.5}, "there is no setting 'gama': did you mean 'gamma'?"),
        (
            {"norm.bn_epsilo": 1.0},
            "there is no setting 'norm.bn_epsilo': did you mean 'norm.bn_epsilon'?",
        ),
        (
            {"protocol.bootstrp.track": 0.1},
            "there is no setting 'protocol.bootstrp': did you mean 'protocol.bootstrap'?",
        ),
        (
            {"norm.qqq": 1.0},
            "there is no setting 'norm.qqq': choose from kind, bn_epsilon, bn_stored_variance, "
            "ln_epsilon, ln_axes.",
        ),
        (
            {"gamma.x": 1.0},
            "gamma is 0.99, which has no field 'x': change gamma itself.",
        ),
        (
            {"protocol.improve.update": 0.1},
            "protocol.improve is None, which has no field 'update': change protocol.improve "
            "itself.",
        ),
        ({"batch_size": "32"}, "batch_size is '32', but must be of type int."),
        ({"batch_size": 1.5}, "batch_size is 1.5, but must be of type int."),
        ({"batch_size": True}, "batch_size is True, but must be of type int."),
        ({"gamma": False}, "gamma is False, but must be of type float."),
        ({"gamma": None}, "gamma is None, but must be of type float."),
        ({"calibrate_target": 1}, "calibrate_target is 1, but must be of type bool."),
        ({"norm": "ln"}, "norm is 'ln', but must be of type NormSettings."),
        ({"norm.kind": "gn"}, "norm.kind is 'gn', but must be one of none, ln, bn."),
        (
            {STATISTICS: "eval"},
            "protocol.bootstrap.statistics is 'eval', but must be one of batch, running, none.",
        ),
        (
            {"learning_rate_schedule": None},
            "learning_rate_schedule is None, but must be one of constant, linear.",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(UsageError) as refused:
        with_changes(BATCH, changes)
    assert str(refused.value) == sentence
