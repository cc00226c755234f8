"""FIRE after a life loss, through the loop."""

from dataclasses import replace

import numpy as np

from bnmodes.agents.c51 import C51Agent
from bnmodes.runs.loop import train
from bnmodes.runs.spec import DiagnosticsSettings, EvaluationSettings
from helpers.run_specs import make_spec


def test_what_is_learnt_from_is_the_action_that_was_pressed(tmp_path, monkeypatch):
    """After a life loss that is FIRE, whatever the agent chose."""
    seen, observe = [], C51Agent.observe

    def remember(agent, actions, step):
        seen.append((int(actions[0]), bool(step.terminated[0] and not step.game_over[0])))
        observe(agent, actions, step)

    monkeypatch.setattr(C51Agent, "observe", remember)
    monkeypatch.setattr(C51Agent, "act", lambda agent, obs: np.array([2]))
    spec = replace(
        make_spec("atari/Breakout", "none", total_decisions=150, torso="nature"),
        fire_on_life_loss=True,
        evaluation=EvaluationSettings(every_decisions=150, episodes=1, epsilon=1.0),
        diagnostics=DiagnosticsSettings(points=0),
    )
    spec = replace(spec, settings=replace(spec.settings, learning_starts_decisions=150))
    train(spec, tmp_path)
    lost = [before for _, before in seen]
    assert any(lost)
    assert [action for action, _ in seen] == [2, *(1 if loss else 2 for loss in lost[:-1])]
