"""Milliseconds of 32 steps of 136 MinAtar games, as in PQN's rollout: the package's games one by
one, and our vector, in alternation on one thread.

make bench
"""

import time

import numpy as np
from bnmodes.envs.minatar.vector import GAMES, MinAtarVector, game_seeds
from minatar import Environment

NUM_ENVS = 136
STEPS = 32
ROUNDS = 12


class OneByOne:
    """The least that a loop over the package's games must do."""

    def __init__(self, game: str) -> None:
        self.games = [Environment(game) for _ in range(NUM_ENVS)]
        for env, seed in zip(self.games, game_seeds(0, NUM_ENVS), strict=True):
            env.seed(seed)
            env.reset()
        self.action_ids = self.games[0].minimal_action_set()

    def step(self, actions: np.ndarray) -> np.ndarray:
        observations = []
        for env, action in zip(self.games, actions.tolist(), strict=True):
            _, terminal = env.act(self.action_ids[action])
            observations.append(env.state())
            if terminal:
                env.reset()
        return np.array(observations)


def milliseconds(players: list[OneByOne | MinAtarVector], num_actions: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    taken = np.empty((ROUNDS, len(players)))
    for row in taken:
        actions = rng.integers(num_actions, size=(STEPS, NUM_ENVS))
        for column, player in enumerate(players):
            begin = time.perf_counter()
            for each in actions:
                player.step(each)
            row[column] = 1000 * (time.perf_counter() - begin)
    return np.median(taken, axis=0)


def main() -> None:
    print(f"{STEPS} steps of {NUM_ENVS} MinAtar games, one thread")
    for game in GAMES:
        vector = MinAtarVector(game, NUM_ENVS, seed=0)
        vector.reset()
        package, ours = milliseconds([OneByOne(game), vector], vector.spec.num_actions)
        print(f"{game:15} {package:6.1f} ms one by one, {ours:6.1f} ms here: {package / ours:5.2f}")


if __name__ == "__main__":
    main()
