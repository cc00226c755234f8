"""Atari games on ale-py's own vector of emulators, behind the vector contract.

A game begins with 0 to 29 frames of no-op, the last of them FIRE where the game has that action;
its first observation is three black frames and one picture. A life loss ends the learning episode
only: the frame stack goes on. What is then pressed, whatever the agent chose, is a `NewLife`: an
agent that never presses FIRE would wait for Breakout's ball for ever.

The name of a game with `-sticky` at its end is another setting of the same vector: each frame
repeats the action before it with probability 0.25, nothing is pressed at the start, and a life
loss ends nothing. The suite `atari-small` has the same games on screens of 42 × 42 pixels.

Emulators cannot be saved: a resumed run replays the actions since their last seed (`resumable`).
"""

from typing import Any

import numpy as np
from ale_py import Action, roms
from ale_py.vector_env import AtariVectorEnv
from jaxtyping import Bool, Int64, UInt8

from bnmodes.envs.contract import NO_PRESS, EnvSpec, NewLife, Observations, Picture, Step
from bnmodes.envs.resumable import ResumableVector
from bnmodes.streams import numpy_stream

MAX_FRAMES = 108_000
"""Longer games are truncated: half an hour of play, no-op start not counted."""

TWO_PLAYER_ROMS = frozenset({"combat", "joust", "maze_craze", "warlords"})
"""ale-py ships them for other programs; loading one here would end the process."""

ROM_IDS = {
    rom.title().replace("_", ""): rom
    for rom in sorted(roms.get_all_rom_ids())
    if rom not in TWO_PLAYER_ROMS
}
"""ale-py's name of a game by the literature's: `MsPacman` is `ms_pacman`."""

STICKY = "-sticky"
"""Ends the name of a game in the setting of the actor-critic study."""
REPEAT_PROBABILITY = 0.25

SCREEN_PIXELS = {"atari": 84, "atari-small": 42}
"""Height and width of a frame, by suite."""
STACK = 4
FRAME_SKIP = 4
PICTURE_PIXELS = 252
"""Height and width of a picture for people."""

NO_OP = 0
NO_OP_FRAMES = 30
"""A game begins with fewer no-op frames than this, and a life too where that is asked for."""

RESEED_AFTER = 5_000
"""Decisions. Seeding loads the game anew, which takes as long as 250 decisions: each time ale-py
makes a table of colours, for an option that is off here."""


class AtariVector(ResumableVector):
    """Emulators cannot be saved: a resumed run plays its actions again."""

    def __init__(
        self,
        game: str,
        num_envs: int,
        seed: int,
        threads: int = 1,
        new_life: NewLife = NO_PRESS,
        suite: str = "atari",
    ) -> None:
        self.num_envs = num_envs
        pixels = SCREEN_PIXELS[suite]
        sticky = game.endswith(STICKY)
        self._emulators = AtariVectorEnv(
            ROM_IDS[game.removesuffix(STICKY)],
            num_envs,
            num_threads=threads,
            max_num_frames_per_episode=MAX_FRAMES,
            repeat_action_probability=REPEAT_PROBABILITY if sticky else 0.0,
            full_action_space=False,
            autoreset_mode="SameStep",
            img_height=pixels,
            img_width=pixels,
            grayscale=True,
            stack_num=STACK,
            frameskip=FRAME_SKIP,
            maxpool=True,
            noop_max=0 if sticky else NO_OP_FRAMES,
            # `episodic_life` would restart the game at each life loss; this one only tells.
            episodic_life=False,
            life_loss_info=not sticky,
            reward_clipping=False,
            use_fire_reset=not sticky,
        )
        actions: Any = self._emulators.single_action_space
        self.spec = EnvSpec(
            name=f"{suite}/{game}",
            num_actions=int(actions.n),
            frame_shape=(1, pixels, pixels),
            stack=STACK,
            pixel_scale=1 / 255,
            frames_per_decision=FRAME_SKIP,
        )
        self._seed_with(numpy_stream(seed, "atari"), RESEED_AFTER)
        self._frame_numbers = np.zeros(num_envs, dtype=np.int32)  # of the game under way
        self._begun = False
        buttons = list(self._emulators.ale.get_action_set())
        self._fires = new_life.fire and Action.FIRE in buttons
        self._fire = buttons.index(Action.FIRE) if self._fires else NO_OP
        self._noops = new_life.noops
        self._forced = np.zeros(num_envs, np.int64)  # decisions left, the last of them FIRE
        self._streams = [np.random.default_rng()] * num_envs

    def _begin(
        self, chosen: Bool[np.ndarray, " envs"], seeds: Int64[np.ndarray, " chosen"]
    ) -> Observations:
        if not self._begun and not chosen.all():
            self._emulators.reset()  # it resets some only after a reset of all
        self._begun = True
        obs, info = self._emulators.reset(seed=seeds, options={"reset_mask": chosen})
        self._frame_numbers = info["episode_frame_number"]
        self._forced[chosen] = 0
        for row, row_seed in zip(np.flatnonzero(chosen), seeds, strict=True):
            self._streams[row] = np.random.default_rng(row_seed)  # the same when played again
        return obs

    def _play(
        self, actions: Int64[np.ndarray, " envs"], running: Bool[np.ndarray, " envs"]
    ) -> Step:
        pressed = None
        if (forced := self._forced > 0).any():
            new_life = np.where(self._forced == 1, self._fire, NO_OP)
            actions = pressed = np.where(forced, new_life, actions)
            self._forced -= forced
        obs, reward, terminated, truncated, info = self._emulators.step(actions)
        # At game over `info` tells of the new game, lives and all: only its clock gives it away.
        game_over = truncated | (info["episode_frame_number"] <= self._frame_numbers)
        next_obs = obs
        if game_over.any():
            # The other rows of `final_obs` hold whatever was in memory, at a life loss too.
            next_obs = obs.copy()
            next_obs[game_over] = info["final_obs"][game_over]
        self._frame_numbers = info["episode_frame_number"]
        self._forced[game_over] = 0
        for row in np.flatnonzero(self._fires & terminated & ~game_over):
            waits = self._streams[row].integers(NO_OP_FRAMES) // FRAME_SKIP if self._noops else 0
            self._forced[row] = waits + 1
        return Step(obs, next_obs, reward.astype(np.float32), terminated, game_over, pressed)

    def picture(self, obs: UInt8[np.ndarray, "stack pixels pixels"]) -> Picture:
        """Its newest frame."""
        scale = PICTURE_PIXELS // obs.shape[-1]
        picture = obs[-1].repeat(scale, axis=0).repeat(scale, axis=1)
        return np.stack([picture] * 3, axis=-1)
