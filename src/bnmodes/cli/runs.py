"""Commands on single runs: train, explain, audit, watch, plot, env list."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import torch
import tyro
from rich.console import Console
from rich.table import Table

from bnmodes import plugins
from bnmodes.agents.registry import AGENTS, find_agent
from bnmodes.cli.options import RunOptions, parse, read_game_and_arm, run_options_type
from bnmodes.envs.registry import env_spec, env_suite, list_envs
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution, keep_freed_memory
from bnmodes.nearest import nearest
from bnmodes.networks.torsos import torso_description
from bnmodes.protocol import explain, explain_json
from bnmodes.runs.audit import audit_run
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import Stopped, train
from bnmodes.runs.sinks import SinkName, require_usable
from bnmodes.runs.spec import RunSpec
from bnmodes.runs.watch import watch
from bnmodes.studies.registry import find_study
from bnmodes.studies.results import run_path

console = Console(soft_wrap=True, highlight=False, markup=False)

Run = TypeVar("Run", bound=RunOptions)


@dataclass(frozen=True, kw_only=True)
class HowToTrain:
    """Where a run is kept and how it is computed."""

    out: Path | None = None
    """Folder of the run; without it, one under runs/ named by game, agent, arm, seed and hash."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints."""
    threads: int = 0
    """Processor threads; 0: one for small networks, all cores for those of Atari's size."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = PLAIN
    """How it is computed; a stopped run may go on with another way."""
    sinks: tuple[SinkName, ...] = ()
    """Where metrics go besides the run's own file."""


@dataclass(frozen=True, kw_only=True)
class Train(Generic[Run]):
    """Train an agent. The same command again goes on with a stopped run."""

    # Both are nested, so that --help begins with the game and the arm.
    run: Annotated[Run, tyro.conf.arg(name="")]
    """What to run."""
    how: Annotated[HowToTrain, tyro.conf.arg(name="")] = HowToTrain()
    """How to run it."""


def agent_named(args: list[str], command: str) -> tuple[str, list[str]]:
    """The agent that the first word names, importing a user's own file, and the other words."""
    if not args or args[0] in ("-h", "--help"):
        lines = [f"  {name.ljust(12)} {kind.summary}" for name, kind in AGENTS.items()]
        usage = f"usage: bnmodes {command} AGENT [OPTIONS]"
        print("\n".join([usage, "", *lines, "  FILE.py:NAME an agent of your own file"]))
        sys.exit(0 if args else 2)
    agent, *rest = args
    if plugins.is_reference(agent):
        agent = plugins.name_here(agent)
    find_agent(agent)
    return agent, rest


def described(agent: str) -> str:
    """The agent in a line, and its arms."""
    kind = find_agent(agent)
    return f"{kind.summary}. Arms: {', '.join(kind.arms)}."


def train_command(args: list[str]) -> None:
    agent, args = agent_named(args, "train")
    options_type = Train[run_options_type(agent)]
    default, rest = read_game_and_arm(agent, args)
    program, default = f"bnmodes train {agent}", options_type(run=default)
    options = parse(
        options_type,
        rest,
        program,
        default,
        f"Train {described(agent)} The same command again goes on.",
    )
    spec, options = options.run.spec(), options.how
    if options.threads < 0:
        raise UsageError(f"threads is {options.threads}, but must be at least 0.")
    if not options.checkpoint_minutes > 0:
        raise UsageError(
            f"checkpoint_minutes is {options.checkpoint_minutes}, but must be above 0."
        )
    require_usable(options.sinks)
    options.execution.validate_here()
    env_spec(spec.env)  # refuses a game that cannot be made
    all_cores = find_agent(agent).suite_defaults(env_suite(spec.env)).all_cores
    torch.set_num_threads(options.threads or (os.cpu_count() if all_cores else 1))
    keep_freed_memory()
    path = options.out or Path("runs") / folder_name(spec)
    if RunFolder(path).finished and RunFolder(path).spec() == spec:
        for sentence in RunFolder(path).changed_plugins():
            console.print(f"note: {sentence}")
        console.print(f"{path} is finished: nothing to do.")
        return
    print(f"training in {path}", file=sys.stderr)
    for note in spec.settings.warnings(spec.total_decisions):
        print(f"note: {note}", file=sys.stderr)
    try:
        folder = train(
            spec,
            path,
            checkpoint_minutes=options.checkpoint_minutes,
            sinks=options.sinks,
            execution=options.execution,
        )
    except Stopped as stopped:
        print(
            f"stopped at decision {stopped.decision:,}; the same command goes on from there",
            file=sys.stderr,
        )
        sys.exit(130)
    last = [row for row in folder.metrics() if row["kind"] == "evaluation"][-1]
    console.print(
        f"finished {spec.total_decisions:,} decisions; mean return of {spec.evaluation.episodes} "
        f"evaluation games: {last['return']:.2f}. See {path}"
    )


def folder_name(spec: RunSpec) -> str:
    """Game, agent, arm, seed and hash of a run, as one word."""
    words = f"{spec.env}_{spec.agent}_{spec.arm}_seed{spec.seed}_{spec.content_hash}"
    return words.replace("/", "-").replace(":", "-")


@dataclass(frozen=True, kw_only=True)
class Explain(Generic[Run]):
    """Show the protocol of a run: parameters, batch, statistics and updates of each forward."""

    run: Annotated[Run, tyro.conf.arg(name="")]
    """What to explain."""
    json: bool = False
    """Print JSON for programs."""


def explain_command(args: list[str]) -> None:
    """`explain AGENT …`, or `explain RUN` of a run's folder."""
    if not args:
        raise UsageError("say what to explain: `bnmodes explain c51 …` or `bnmodes explain RUN`.")
    if (nearest(args[0], AGENTS) and not Path(args[0]).exists()) or plugins.is_reference(args[0]):
        agent, args = agent_named(args, "explain")
        options_type = Explain[run_options_type(agent)]
        default, rest = read_game_and_arm(agent, args)
        program, default = f"bnmodes explain {agent}", options_type(run=default)
        options = parse(options_type, rest, program, default, f"Explain {described(agent)}")
        spec, as_json = options.run.spec(), options.json
    else:
        of_run = parse(ExplainRun, args, "bnmodes explain")
        spec, as_json = of_run.folder().spec(), of_run.json
    capabilities = spec.settings.capabilities(spec.evaluation.episodes)
    if as_json:
        print(explain_json(spec.settings.protocol, capabilities))
        return
    kind, suite = find_agent(spec.agent), env_suite(spec.env)
    print(f"{kind.name.upper()}, arm {spec.arm}, on {spec.env}\n")
    print(explain(spec.settings.protocol, capabilities))
    notes = spec.settings.notes()
    if torso := getattr(spec.settings, "torso", None):
        layers = torso_description(torso, env_spec(spec.env).obs_shape)
        notes += [f"Hidden layers that read an observation (torso {torso}): {layers}."]
    if not kind.is_tuned_for(suite):
        notes += [f"Nobody tuned {kind.name} for these games: its preset for others is used."]
    if notes:
        print("\n" + "\n".join(notes))


@dataclass(frozen=True)
class OfRun:
    """A run, finished or stopped, and the files that it needs."""

    run: tyro.conf.Positional[tuple[str, ...]]
    """Folder of a run; or four words that find a run of a study: STUDY ARM GAME SEED."""
    out: Path = Path("results")
    """Folder of results, where a run of a study is looked for."""
    plugin: tuple[Path, ...] = ()
    """Files of your own that the run's agent or game is in; results never import them."""

    def folder(self) -> RunFolder:
        """The run's folder, once the files that it needs are imported."""
        if len(self.run) == 1:
            path = Path(self.run[0])
        elif len(self.run) == 4:
            path = self._path_in_study()
        else:
            raise UsageError(
                f"{len(self.run)} words do not name a run: give its folder, or STUDY ARM GAME SEED "
                "(an arm with spaces in quotes)."
            )
        load_plugins(self.plugin, [path])
        return RunFolder(path)

    def _path_in_study(self) -> Path:
        name, arm, game, seed = self.run
        (run,) = find_study(name).restricted([arm], [game], [seed]).runs
        path = run_path(self.out, run)
        if not path.exists():
            raise UsageError(
                f"{run}, is not in {self.out}: `bnmodes study run` makes it; or name another --out."
            )
        return path

    @property
    def study_arm(self) -> str:
        """The study's own name of its arm, where a study was named."""
        return self.run[1] if len(self.run) == 4 else ""


def load_plugins(paths: tuple[Path, ...], runs: Iterable[Path]) -> None:
    """Import the files that the user names, and tell which runs were made with other versions."""
    for path in paths:
        plugins.load(path)
    for run in runs:
        for sentence in RunFolder(run).changed_plugins():
            console.print(f"note: {sentence}")


@dataclass(frozen=True)
class ExplainRun(OfRun):
    """Show the protocol of a run folder, or, as `bnmodes explain c51 …`, of options."""

    json: bool = False
    """Print JSON for programs."""


@dataclass(frozen=True)
class AuditRun(OfRun):
    """Measure what each forward of a run does, beside what it declares."""

    game_seed: int = 0
    """Which games give the rows."""


def audit_command(args: list[str]) -> None:
    options = parse(AuditRun, args, "bnmodes audit")
    audits, notes = audit_run(options.folder(), options.game_seed)
    for note in notes:
        console.print(note)
    table = Table("role", "rows", "declared", "observed", box=None)
    for found in audits:
        table.add_row(found.role, found.rows, found.declared, found.observed)
    console.print(table)
    different = [found.role for found in audits if not found.agrees]
    if different:
        console.print(f"not as declared: {', '.join(different)}")
        sys.exit(1)


def env_list(args: list[str]) -> None:
    """List every game."""
    parse(EnvList, args, "bnmodes env list")
    table = Table("game", "actions", "observation", box=None)
    for row in list_envs():
        table.add_row(row.name, str(row.num_actions or "–"), row.observation)
    console.print(table)


@dataclass(frozen=True)
class EnvList:
    """List every game that can be trained on."""


@dataclass(frozen=True)
class Watch(OfRun):
    """Play a trained agent for one game and write it as a GIF."""

    to: Path | None = None
    """GIF to write; without it, watch.gif in the run's folder."""
    max_decisions: int = 1_000
    """Longest film (decisions)."""
    game_seed: int = 0
    """Which game is played."""


def watch_command(args: list[str]) -> None:
    options = parse(Watch, args, "bnmodes watch")
    folder = options.folder()
    path = options.to or folder.path / "watch.gif"
    film = watch(folder, path, options.max_decisions, options.game_seed, options.study_arm)
    for note in film.notes:
        console.print(note)
    end = "whole game" if film.game_over else "so far"
    console.print(f"{path}: {film.decisions} decisions, return {film.game_return:g} ({end})")


@dataclass(frozen=True)
class Plot:
    """Draw the learning curve of runs as a picture."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs."""
    to: Path = Path("curve.png")
    """Picture to write; the ending chooses PNG, PDF or SVG."""
    plugin: tuple[Path, ...] = ()
    """Files of your own that the runs' agents or games are in; results never import them."""


def plot(args: list[str]) -> None:
    from bnmodes.analysis.figures.run_curve import learning_curve  # here: matplotlib takes a second

    options = parse(Plot, args, "bnmodes plot")
    load_plugins(options.plugin, options.runs)
    learning_curve([RunFolder(path) for path in options.runs], options.to)
    console.print(f"{options.to}")
