"""Small runs for tests."""

from dataclasses import replace

from bnmodes.agents.c51 import c51_config
from bnmodes.agents.pqn import pqn_config
from bnmodes.agents.registry import AGENTS
from bnmodes.envs.registry import env_family
from bnmodes.runs.spec import DiagnosticsSettings, EvaluationSettings, RunSpec
from helpers.actor_critic_agents import ARM, SMALL


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
        evaluation=EvaluationSettings(every_decisions=150, episodes=3),
        diagnostics=DiagnosticsSettings(points=4),
        config=replace(c51_config(arm, env_family(env), 0.1), **(settings | config)),
    )


def make_pqn_spec(env="minatar/breakout", arm="bn-running", total_decisions=600, **config):
    """Rollouts of 48 transitions: 6 training environments, 2 test environments, 8 steps."""
    settings = {"num_envs": 6, "test_envs": 2, "rollout_steps": 8, "minibatches": 4}
    return RunSpec(
        agent="pqn",
        env=env,
        arm=arm,
        seed=0,
        total_decisions=total_decisions,
        record_every_decisions=60,
        evaluation=EvaluationSettings(every_decisions=300, episodes=3, test_bins=10),
        diagnostics=DiagnosticsSettings(points=4),
        config=replace(pqn_config(arm, env_family(env)), **(settings | config)),
    )


def make_actor_critic_spec(agent, env="minatar/breakout", arm=None, total_decisions=160, **config):
    arm = arm or ARM[agent]
    return RunSpec(
        agent=agent,
        env=env,
        arm=arm,
        seed=0,
        total_decisions=total_decisions,
        record_every_decisions=20,
        evaluation=EvaluationSettings(every_decisions=80, episodes=3),
        diagnostics=DiagnosticsSettings(points=4),
        config=replace(AGENTS[agent].arm_config(arm, env_family(env)), **config),
    )


def make_small_actor_critic_spec(agent, **changes):
    short = {"batch_size": 8, "replay_capacity": 60, "learning_starts_decisions": 30}
    return make_actor_critic_spec(agent, **(short | SMALL[agent] | changes))
