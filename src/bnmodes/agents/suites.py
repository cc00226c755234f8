"""What depends on the suite of games, for every agent here: the one table of it.

A row says what differs from an agent's own defaults (which are the paper's for Atari), and how long
a run is and how often it is evaluated where the user does not say. `UNTUNED` serves every other
suite: a stated preset, with a network chosen by the size of the observations, that nobody tuned.
"""

from typing import Any

from bnmodes.agents.agent import UNTUNED, SuiteDefaults

ATARI, ATARI_SMALL, MINATAR, PROBE = "atari", "atari-small", "minatar", "probe"


def _atari(**plan: Any) -> dict[str, SuiteDefaults]:
    """The paper's plan of a run, for both sizes of the screen."""
    return {
        ATARI: SuiteDefaults(all_cores=True, **plan),
        ATARI_SMALL: SuiteDefaults({"torso": "nature-small"}, **plan),
    }


_C51_MINATAR = SuiteDefaults(
    {
        "torso": "minatar",
        "replay_capacity": 100_000,
        "learning_starts_decisions": 5_000,
        "target_period_decisions": 1_000,
    },
    total_decisions=300_000,
    evaluate_every_decisions=25_000,
)
C51_SUITES = {
    **_atari(
        total_decisions=1_250_000,
        record_every_decisions=10_000,
        evaluate_every_decisions=100_000,
    ),
    MINATAR: _C51_MINATAR,
    PROBE: _C51_MINATAR,
    UNTUNED: SuiteDefaults(
        {
            "torso": "auto",
            "replay_capacity": 100_000,
            "learning_starts_decisions": 1_000,
            "target_period_decisions": 500,
            "updates_per_decision": 0.5,
            "clip_rewards": False,
            "v_min": -100.0,
            "v_max": 100.0,
            "atoms": 101,
        }
    ),
}

_PQN_MINATAR = SuiteDefaults(
    {"torso": "minatar", "learning_rate": 5e-4},
    total_decisions=400_000,
    record_every_decisions=4_000,
    evaluate_every_decisions=400_000,
)
PQN_SUITES = {
    **_atari(
        total_decisions=10_000_000,
        record_every_decisions=100_000,
        evaluate_every_decisions=10_000_000,
    ),
    MINATAR: _PQN_MINATAR,
    PROBE: _PQN_MINATAR,
    UNTUNED: SuiteDefaults(
        {
            "torso": "auto",
            "learning_rate": 5e-4,
            "num_envs": 32,
            "minibatches": 8,
            "clip_rewards": False,
            "v_min": -100.0,
            "v_max": 100.0,
            "bins": 101,
        },
        total_decisions=400_000,
        record_every_decisions=4_000,
        evaluate_every_decisions=40_000,
    ),
}


def _actor_critic(
    small: dict, minatar: dict, evaluation_epsilon: float = 0.0
) -> dict[str, SuiteDefaults]:
    """`small` suits two processor cores; `minatar` is what the games of that size add."""
    plan: dict[str, Any] = {
        "total_decisions": 40_000,
        "evaluate_every_decisions": 4_000,
        "evaluation_epsilon": evaluation_epsilon,
    }
    on_minatar = SuiteDefaults(small | minatar, **plan)
    return {
        **_atari(
            total_decisions=1_250_000,
            record_every_decisions=10_000,
            evaluate_every_decisions=50_000,
            evaluation_epsilon=evaluation_epsilon,
        ),
        MINATAR: on_minatar,
        PROBE: on_minatar,
        UNTUNED: SuiteDefaults(small | {"torso": "auto"}, **plan),
    }


_SMALL = {"batch_size": 64, "replay_capacity": 100_000, "learning_starts_decisions": 1_000}

TD3_SUITES = _actor_critic(_SMALL | {"hidden_units": 128}, {"torso": "minatar"})
XQC_SUITES = _actor_critic(
    _SMALL
    | {"hidden_layers": 2, "critic_units": 128, "actor_units": 128, "updates_per_decision": 1.0},
    {"torso": "minatar"},
)
# Runs of this length would end before the release's 100,000 updates of warm-up.
CROSSQ_SUITES = _actor_critic(
    _SMALL | {"critic_units": 256, "actor_units": 128, "renorm_warmup_updates": 5_000},
    {"torso": "minatar"},
)
# Ten pixels leave none to shift, and MinAtar's planes are binary.
MRQ_SUITES = _actor_critic(
    _SMALL | {"hidden_units": 128, "action_units": 32},
    {"torso": "minatar", "shift_pixels": 0},
    evaluation_epsilon=0.001,
)
