"""The command line: `bnmodes COMMAND …`."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from bnmodes.agents.c51 import ARMS, C51Config, c51_config
from bnmodes.analysis.figures import learning_curve
from bnmodes.envs.registry import canonical_name, env_family, list_envs
from bnmodes.errors import UsageError
from bnmodes.protocol import alpha, explain, explain_json
from bnmodes.training.record import RunFolder
from bnmodes.training.run import Stopped, train
from bnmodes.training.spec import EvaluationConfig, RunSpec
from bnmodes.training.watch import watch

console = Console(soft_wrap=True, highlight=False)


@dataclass(frozen=True)
class C51Run:
    """What to run. The defaults shown are those of the game and the arm that were given."""

    env: str = "minatar/breakout"
    """Game: minatar/breakout, atari/Pong, …; `bnmodes env list` shows all."""
    arm: Literal[ARMS] = "bn-batch"
    """One of the paper's arms: sets norm, protocol, projection and learning-rate schedule."""
    alpha: str = "0.01"
    """Tracking weight α of the arm bn-tracked; flax:0.99 gives it as Flax momentum."""
    seed: int = 0
    """The one seed that everything random comes from."""
    total_decisions: int = 300_000
    """Length of the run (decisions; one is four frames on Atari, one on MinAtar)."""
    record_every_decisions: int = 1_000
    """Decisions between two rows of training metrics."""
    evaluation: EvaluationConfig = EvaluationConfig(every_decisions=25_000)
    """Separate evaluation: its own environments, one full game in each."""
    config: Annotated[C51Config, tyro.conf.arg(name="")] = c51_config("bn-batch", "minatar")
    """The agent."""

    def spec(self) -> RunSpec:
        spec = RunSpec(
            agent="c51",
            env=canonical_name(self.env),
            arm=self.arm,
            seed=self.seed,
            total_decisions=self.total_decisions,
            record_every_decisions=self.record_every_decisions,
            evaluation=self.evaluation,
            config=self.config,
        )
        spec.validate()
        return spec


def default_run(env: str, arm: str, tracking_alpha: str) -> C51Run:
    """The paper's scale on Atari, a laptop's elsewhere."""
    family = env_family(env)
    config = c51_config(arm, family, tracking_alpha)
    run = C51Run(env=env, arm=arm, alpha=tracking_alpha, config=config)
    if family == "atari":
        evaluation = EvaluationConfig()
        return replace(
            run, total_decisions=1_250_000, record_every_decisions=10_000, evaluation=evaluation
        )
    return run


@dataclass(frozen=True)
class TrainC51:
    """Train C51. The same command again goes on with a stopped run."""

    run: Annotated[C51Run, tyro.conf.arg(name="")] = C51Run()
    """What to run."""
    out: Path | None = None
    """Folder of the run; without it, a folder under runs/ named by game, arm, seed and hash."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints."""
    threads: int = 0
    """Processor threads of the network; 0: one for MinAtar's small one, all cores for Atari's."""


@dataclass(frozen=True)
class ExplainC51:
    """Show the protocol of a C51 run: parameters, rows, statistics and writes of each forward."""

    run: Annotated[C51Run, tyro.conf.arg(name="")] = C51Run()
    """What to explain."""
    json: bool = False
    """Print JSON for programs."""


def train_c51(args: list[str]) -> None:
    options = _parse(TrainC51, args, "bnmodes train c51")
    if options.threads < 0:
        raise UsageError(f"threads is {options.threads}, but must be at least 0.")
    if not options.checkpoint_minutes > 0:
        raise UsageError(f"checkpoint-minutes is {options.checkpoint_minutes}: must be above 0.")
    spec = options.run.spec()
    on_atari = env_family(spec.env) == "atari"
    torch.set_num_threads(options.threads or (os.cpu_count() if on_atari else 1))
    name = f"{spec.env.replace('/', '-')}_{spec.arm}_seed{spec.seed}_{spec.content_hash}"
    path = options.out or Path("runs") / name
    if RunFolder(path).finished and RunFolder(path).spec() == spec:
        console.print(f"{path} is finished: nothing to do.")
        return
    folder = train(spec, path, checkpoint_minutes=options.checkpoint_minutes)
    last = [row for row in folder.metrics() if row["kind"] == "evaluation"][-1]
    console.print(
        f"finished {spec.total_decisions:,} decisions; mean return of {spec.evaluation.episodes} "
        f"evaluation games: {last['return']:.2f}. See {path}"
    )


def explain_command(args: list[str]) -> None:
    """`explain c51 …` or `explain RUN`."""
    if args[:1] == ["c51"]:
        options = _parse(ExplainC51, args[1:], "bnmodes explain c51")
        spec, as_json = options.run.spec(), options.json
    else:
        run = _parse(ExplainRun, args, "bnmodes explain")
        spec, as_json = RunFolder(run.run).spec(), run.json
    setting = spec.config.setting(spec.evaluation.episodes)
    if as_json:
        print(explain_json(spec.config.protocol, setting))
        return
    print(f"C51, arm {spec.arm}, on {spec.env}\n")
    print(explain(spec.config.protocol, setting))
    print("\n" + "\n".join(spec.config.notes()))


@dataclass(frozen=True)
class ExplainRun:
    """Show the protocol of a run folder, or, as `bnmodes explain c51 …`, of options."""

    run: tyro.conf.Positional[Path]
    """Folder of a run."""
    json: bool = False
    """Print JSON for programs."""


def env_list(args: list[str]) -> None:
    """List every game."""
    _parse(EnvList, args, "bnmodes env list")
    table = Table("game", "actions", "observation", box=None)
    for row in list_envs():
        table.add_row(row.name, str(row.num_actions), "×".join(map(str, row.obs_shape)))
    console.print(table)


@dataclass(frozen=True)
class EnvList:
    """List every game that can be trained on."""


@dataclass(frozen=True)
class Watch:
    """Play a trained agent for one game and write it as a GIF."""

    run: tyro.conf.Positional[Path]
    """Folder of a run, finished or stopped."""
    to: Path | None = None
    """GIF to write; without it, watch.gif in the run's folder."""
    max_decisions: int = 1_000
    """Longest film (decisions)."""
    seed: int = 0
    """Which game is played."""


def watch_command(args: list[str]) -> None:
    options = _parse(Watch, args, "bnmodes watch")
    path = options.to or options.run / "watch.gif"
    film = watch(RunFolder(options.run), path, options.max_decisions, options.seed)
    end = "whole game" if film.game_over else "so far"
    console.print(f"{path}: {film.decisions} decisions, return {film.game_return:g} ({end})")


@dataclass(frozen=True)
class Plot:
    """Draw the learning curve of runs as a picture."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs."""
    to: Path = Path("curve.png")
    """Picture to write; the ending chooses PNG, PDF or SVG."""


def plot(args: list[str]) -> None:
    options = _parse(Plot, args, "bnmodes plot")
    learning_curve([RunFolder(path) for path in options.runs], options.to)
    console.print(f"{options.to}")


COMMANDS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "train c51": (train_c51, "train C51; the same command again goes on with a stopped run"),
    "explain": (explain_command, "show which statistics each forward of a run uses and writes"),
    "env list": (env_list, "list every game"),
    "watch": (watch_command, "play a trained agent and write a GIF"),
    "plot": (plot, "draw the learning curves of runs"),
}


def _parse(cls: type, args: list[str], program: str):
    default = tyro.MISSING_NONPROP
    if "run" in cls.__annotations__ and cls in (TrainC51, ExplainC51):
        default = cls(run=_default_run_of(args))
    return tyro.cli(
        cls,
        args=args,
        prog=program,
        default=default,
        config=(tyro.conf.AvoidSubcommands, tyro.conf.FlagCreatePairsOff),
        registry=_registry,
    )


def _default_run_of(args: list[str]) -> C51Run:
    """Game and arm decide the other defaults, so they are read first."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("env", "arm", "alpha"):
        first.add_argument(f"--{name}", default=getattr(C51Run(), name))
    known, _ = first.parse_known_args(args)
    return default_run(known.env, known.arm, known.alpha)


_registry = tyro.constructors.ConstructorRegistry()


@_registry.primitive_rule
def _update_weight(info: tyro.constructors.PrimitiveTypeInfo):
    """Every optional float of our options is an update weight, in either convention."""
    if info.type != float | None:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="ALPHA",
        instance_from_str=lambda text: None if text == ["none"] else alpha(text[0]),
        is_instance=lambda value: value is None or isinstance(value, float),
        str_from_instance=lambda value: ["none" if value is None else f"{value:g}"],
    )


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}   {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: bnmodes COMMAND [OPTIONS]",
            "",
            "BatchNorm forward modes of value-learning agents: declared, tested, trained.",
            "",
            *lines,
            "",
            "`bnmodes COMMAND --help` says each option's meaning, unit and default.",
        ]
    )


def _dispatch(args: list[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        print(_help())
        return
    for name, (command, _) in COMMANDS.items():
        words = name.split()
        if args[: len(words)] == words:
            command(args[len(words) :])
            return
    tried = " ".join(args[:2])
    close = difflib.get_close_matches(tried, COMMANDS, n=1, cutoff=0.4)
    hint = f"did you mean 'bnmodes {close[0]}'?" if close else "see 'bnmodes --help'."
    raise UsageError(f"'bnmodes {tried}' is no command: {hint}")


def main() -> None:
    try:
        _dispatch(sys.argv[1:])
    except UsageError as error:
        print(f"bnmodes: {error}", file=sys.stderr)
        sys.exit(2)
    except Stopped as stopped:
        print(
            f"stopped at decision {stopped.decision:,}; the same command goes on from there",
            file=sys.stderr,
        )
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
