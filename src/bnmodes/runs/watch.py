"""Play a trained agent and film it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from bnmodes.agents.registry import find_agent
from bnmodes.envs.contract import Picture
from bnmodes.envs.registry import make_env
from bnmodes.errors import UsageError
from bnmodes.files import replacing
from bnmodes.runs.calibrate import calibrated_agent
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.trained import load_agent
from bnmodes.streams import numpy_stream

_FONT_PIXELS = 15
_LINE_PIXELS = 20


@dataclass(frozen=True)
class Film:
    decisions: int
    game_return: float
    game_over: bool
    notes: list[str]


def watch(
    folder: RunFolder,
    path: Path,
    max_decisions: int,
    seed: int,
    arm: str = "",
    *,
    calibrated: bool = False,
) -> Film:
    """One game of the first of the evaluation's environments, as a GIF.

    Below each picture stand the game, the agent with its arm (`arm`, or as the run calls it), and
    the return so far.

    All of them play, because a protocol may ask for batch statistics over their rows; a calibrated
    agent needs none and plays alone.
    """
    spec = folder.spec()
    if max_decisions < 1:
        raise UsageError(f"max_decisions is {max_decisions}, but must be at least 1.")
    if path.suffix.lower() != ".gif":
        raise UsageError(f"{path} does not end in .gif: only GIFs are written.")
    rng = numpy_stream(seed, "watched game")
    seed = int(rng.integers(2**31 - 1000))
    num_envs = 1 if calibrated else spec.evaluation.episodes
    env = make_env(spec.env, num_envs, seed, render=True, new_life=spec.new_life)
    notes: list[str] = []
    if calibrated:
        agent = calibrated_agent(folder, env)
    else:
        agent, notes = load_agent(folder, spec, env)
    obs = env.reset()
    arm = f"{find_agent(spec.agent).name.upper()}, {arm or spec.arm}"
    game_return, game_over = 0.0, False
    images = [labelled(env.picture(obs[0]), [spec.env, arm, f"return {game_return:g}"])]
    while len(images) <= max_decisions and not game_over:
        explore = rng.random(env.num_envs) < spec.evaluation.epsilon
        random_actions = rng.integers(env.spec.num_actions, size=env.num_envs)
        step = env.step(np.where(explore, random_actions, agent.greedy(obs)))
        game_return += float(step.reward[0])
        game_over = bool(step.game_over[0])
        obs = step.obs
        picture = env.picture(step.next_obs[0])
        images.append(labelled(picture, [spec.env, arm, f"return {game_return:g}"]))
    milliseconds = 60 if env.spec.frames_per_decision == 4 else 100
    with replacing(path) as aside:
        images[0].save(
            aside, save_all=True, append_images=images[1:], duration=milliseconds, loop=0
        )
    return Film(len(images) - 1, game_return, game_over, notes)


def labelled(picture: Picture, lines: Sequence[str]) -> Image.Image:
    """The picture with lines of text below it, wide enough for both."""
    font = ImageFont.load_default(_FONT_PIXELS)
    height, width = picture.shape[:2]
    margin = _LINE_PIXELS // 2
    wide = max(width, *(2 * margin + int(font.getlength(line)) + 1 for line in lines))
    image = Image.new("RGB", (wide, height + len(lines) * _LINE_PIXELS + margin), "white")
    image.paste(Image.fromarray(picture), (0, 0))
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((margin, height + margin // 2 + number * _LINE_PIXELS), line, "black", font)
    return image.quantize(32)
