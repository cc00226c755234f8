"""Files as a user would write them, in a folder of her own: a game, an agent, a study."""

from pathlib import Path

CONTINUOUS = """

def continuous():
    return gymnasium.make("Pendulum-v1")
"""

STUDY = """
from bnmodes import Arm, EvaluationSettings, Study

FAST = {
    "replay_capacity": 300,
    "learning_starts_decisions": 100,
    "target_period_decisions": 50,
    "updates_per_decision": 0.5,
    "batch_size": 8,
}

STUDY = Study(
    name="own",
    question="Does it run outside?",
    arms=(
        Arm("C51", "bn-batch", changes=FAST),
        Arm("DQN", "bn-batch", agent="my_agent.py:DQN", changes=FAST),
    ),
    games=("my_games.py:make_it", "gymnasium/CartPole-v1"),
    seeds=(0,),
    total_decisions=1_200,
    evaluation=EvaluationSettings(every_decisions=600, episodes=2, epsilon=0.5),
)
"""


def write_files(folder: Path) -> None:
    """my_games.py and my_agent.py, which are the examples, and my_study.py."""
    examples = Path(__file__).parents[2] / "examples"
    agent = (examples / "dqn.py").read_text().partition("STUDY = Study(")[0]
    (folder / "my_games.py").write_text((examples / "own_game.py").read_text() + CONTINUOUS)
    (folder / "my_agent.py").write_text(agent)
    (folder / "my_study.py").write_text(STUDY)
