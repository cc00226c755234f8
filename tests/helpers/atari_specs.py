"""Short runs of every agent on Pong: untrained players lose it in about a thousand decisions."""

from dataclasses import replace

from bnmodes.runs.spec import RunSpec
from helpers.run_specs import make_pqn_spec, make_small_actor_critic_spec, make_spec


def atari_specs() -> dict[str, RunSpec]:
    specs = {
        "c51": make_spec("atari/Pong", "bn-batch", total_decisions=200, updates_per_decision=0.05),
        "pqn": make_pqn_spec("atari/Pong", total_decisions=240, minibatches=2),
        **{
            agent: make_small_actor_critic_spec(agent, env="atari/Pong", total_decisions=120)
            for agent in ("td3", "xqc", "mrq")
        },
    }
    return {
        agent: replace(
            spec,
            record_every_decisions=20,
            evaluation=replace(spec.evaluation, every_decisions=spec.total_decisions, episodes=2),
        )
        for agent, spec in specs.items()
    }
