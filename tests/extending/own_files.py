"""Files as a user would write them, in a folder of her own: a game, an agent, a study."""

from pathlib import Path

GAME = '''
import gymnasium
import numpy as np


class Catch(gymnasium.Env):
    """A ball falls down a 12 × 8 picture onto a paddle that moves left, stays or moves right."""

    observation_space = gymnasium.spaces.Box(0, 255, (12, 8, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.column, self.paddle = 0, int(self.np_random.integers(8)), 4
        return self.picture(), {}

    def step(self, action):
        self.paddle = min(7, max(0, self.paddle + int(action) - 1))
        self.row += 1
        done = self.row == 11
        reward = float(abs(self.paddle - self.column) <= 1) if done else 0.0
        return self.picture(), reward, done, False, {}

    def picture(self):
        picture = np.zeros((12, 8, 1), np.uint8)
        picture[self.row, self.column] = 255
        picture[11, self.paddle] = 255
        return picture


def make_it():
    return Catch()


def continuous():
    return gymnasium.make("Pendulum-v1")
'''

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
    evaluation=EvaluationSettings(every_decisions=600, episodes=2),
)
"""


def write_files(folder: Path) -> None:
    """my_games.py, my_agent.py (the example's DQN) and my_study.py."""
    example = Path(__file__).parents[2] / "examples" / "dqn.py"
    (folder / "my_games.py").write_text(GAME)
    (folder / "my_agent.py").write_text(example.read_text().partition("STUDY = Study(")[0])
    (folder / "my_study.py").write_text(STUDY)
