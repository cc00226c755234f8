"""Small runs for tests."""

from dataclasses import replace

from bnmodes.agents.c51 import c51_config
from bnmodes.envs.registry import env_family
from bnmodes.training.spec import EvaluationConfig, RunSpec


def make_spec(env="minatar/breakout", arm="bn-tracked", total_decisions=400, seed=0, **config):
    settings = {
        "replay_capacity": 150,
        "learning_starts_decisions": 50,
        "target_period_decisions": 70,
        "updates_per_decision": 1.0,
    }
    return RunSpec(
        agent="c51",
        env=env,
        arm=arm,
        seed=seed,
        total_decisions=total_decisions,
        record_every_decisions=30,
        evaluation=EvaluationConfig(every_decisions=150, episodes=3),
        config=replace(c51_config(arm, env_family(env), 0.1), **(settings | config)),
    )
