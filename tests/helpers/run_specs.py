"""Small runs for tests. Evaluations are half random, since untrained greedy games can be long."""

from bnmodes.runs.spec import DiagnosticsSettings, EvaluationSettings
from bnmodes.runs.spec import make_spec as spec_of
from helpers.actor_critic_agents import ARM, SMALL


def make_spec(env="minatar/breakout", arm="bn-tracked", total_decisions=400, seed=0, **changes):
    short = {
        "replay_capacity": 150,
        "learning_starts_decisions": 50,
        "target_period_decisions": 70,
        "updates_per_decision": 0.5,
        "batch_size": 8,
    }
    if arm == "bn-tracked":
        short |= {"protocol.bootstrap.track": 0.1}
    return spec_of(
        "c51",
        env,
        arm,
        seed=seed,
        changes=short | changes,
        total_decisions=total_decisions,
        record_every_decisions=30,
        evaluation=EvaluationSettings(every_decisions=150, episodes=3, epsilon=0.5),
        diagnostics=DiagnosticsSettings(points=2),
    )


def make_pqn_spec(env="minatar/breakout", arm="bn-running", total_decisions=600, **changes):
    """Rollouts of 48 transitions: 6 training environments, 2 test environments, 8 steps."""
    small = {"num_envs": 6, "test_envs": 2, "rollout_steps": 8, "minibatches": 4}
    return spec_of(
        "pqn",
        env,
        arm,
        changes=small | changes,
        total_decisions=total_decisions,
        record_every_decisions=60,
        evaluation=EvaluationSettings(every_decisions=300, episodes=3, epsilon=0.5, test_bins=10),
        diagnostics=DiagnosticsSettings(points=2),
    )


def make_actor_critic_spec(agent, env="minatar/breakout", arm=None, total_decisions=160, **changes):
    return spec_of(
        agent,
        env,
        arm or ARM[agent],
        changes=changes,
        total_decisions=total_decisions,
        record_every_decisions=20,
        evaluation=EvaluationSettings(every_decisions=80, episodes=3, epsilon=0.5),
        diagnostics=DiagnosticsSettings(points=2),
    )


def make_small_actor_critic_spec(agent, **changes):
    short = {"batch_size": 8, "replay_capacity": 60, "learning_starts_decisions": 30}
    return make_actor_critic_spec(agent, **(short | SMALL[agent] | changes))
