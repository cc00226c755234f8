"""Commands on single runs: train, explain, audit, watch, plot, env list."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import torch
import tyro
from rich.console import Console
from rich.table import Table

from bnmodes.agents.catalogue import AgentName
from bnmodes.cli.options import RUNS, RunOptions, default_run_of, parse
from bnmodes.envs.registry import env_family, list_envs
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.protocol import explain, explain_json
from bnmodes.runs.audit import audit_run
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import train
from bnmodes.runs.sinks import SinkName, require_usable
from bnmodes.runs.watch import watch

console = Console(soft_wrap=True, highlight=False, markup=False)


Run = TypeVar("Run", bound=RunOptions)


@dataclass(frozen=True, kw_only=True)
class Train(Generic[Run]):
    """Train an agent. The same command again goes on with a stopped run."""

    run: Annotated[Run, tyro.conf.arg(name="")]
    """What to run."""
    out: Path | None = None
    """Folder of the run; without it, one under runs/ named by game, agent, arm, seed and hash."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints."""
    threads: int = 0
    """Processor threads of the network; 0: one for MinAtar's small one, all cores for Atari's."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = PLAIN
    """How it is computed; a stopped run may go on with another way."""
    sinks: tuple[SinkName, ...] = ()
    """Where metrics go besides the run's own file."""


def train_command(agent: AgentName, args: list[str]) -> None:
    options_type = Train[RUNS[agent]]
    default = options_type(run=default_run_of(RUNS[agent], args))
    options = parse(options_type, args, f"bnmodes train {agent}", default)
    if options.threads < 0:
        raise UsageError(f"threads is {options.threads}, but must be at least 0.")
    if not options.checkpoint_minutes > 0:
        raise UsageError(f"checkpoint-minutes is {options.checkpoint_minutes}: must be above 0.")
    options.execution.validate_here()
    require_usable(options.sinks)
    spec = options.run.spec()
    on_atari = env_family(spec.env) == "atari"
    torch.set_num_threads(options.threads or (os.cpu_count() if on_atari else 1))
    game = spec.env.replace("/", "-")
    name = f"{game}_{spec.agent}_{spec.arm}_seed{spec.seed}_{spec.content_hash}"
    path = options.out or Path("runs") / name
    if RunFolder(path).finished and RunFolder(path).spec() == spec:
        console.print(f"{path} is finished: nothing to do.")
        return
    print(f"training in {path}", file=sys.stderr)
    for note in spec.config.warnings(spec.total_decisions):
        print(f"note: {note}", file=sys.stderr)
    folder = train(
        spec,
        path,
        checkpoint_minutes=options.checkpoint_minutes,
        sinks=options.sinks,
        execution=options.execution,
    )
    last = [row for row in folder.metrics() if row["kind"] == "evaluation"][-1]
    console.print(
        f"finished {spec.total_decisions:,} decisions; mean return of {spec.evaluation.episodes} "
        f"evaluation games: {last['return']:.2f}. See {path}"
    )


@dataclass(frozen=True, kw_only=True)
class Explain(Generic[Run]):
    """Show the protocol of a run: parameters, rows, statistics and writes of each forward."""

    run: Annotated[Run, tyro.conf.arg(name="")]
    """What to explain."""
    json: bool = False
    """Print JSON for programs."""


def explain_command(args: list[str]) -> None:
    """`explain c51 …`, the same of any other agent, or `explain RUN`."""
    if not args:
        raise UsageError("say what to explain: `bnmodes explain c51 …` or `bnmodes explain RUN`.")
    if args[0] in RUNS:
        options_type = Explain[RUNS[args[0]]]
        default = options_type(run=default_run_of(RUNS[args[0]], args[1:]))
        options = parse(options_type, args[1:], f"bnmodes explain {args[0]}", default)
        spec, as_json = options.run.spec(), options.json
    else:
        run = parse(ExplainRun, args, "bnmodes explain")
        spec, as_json = RunFolder(run.run).spec(), run.json
    setting = spec.config.setting(spec.evaluation.episodes)
    if as_json:
        print(explain_json(spec.config.protocol, setting))
        return
    print(f"{spec.agent.upper()}, arm {spec.arm}, on {spec.env}\n")
    print(explain(spec.config.protocol, setting))
    print("\n" + "\n".join(spec.config.notes()))


@dataclass(frozen=True)
class ExplainRun:
    """Show the protocol of a run folder, or, as `bnmodes explain c51 …`, of options."""

    run: tyro.conf.Positional[Path]
    """Folder of a run."""
    json: bool = False
    """Print JSON for programs."""


@dataclass(frozen=True)
class AuditRun:
    """Measure what each forward of a run does, beside what it declares."""

    run: tyro.conf.Positional[Path]
    """Folder of a run, finished or stopped."""
    seed: int = 0
    """Which games give the rows."""


def audit_command(args: list[str]) -> None:
    options = parse(AuditRun, args, "bnmodes audit")
    audits, notes = audit_run(RunFolder(options.run), options.seed)
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
    options = parse(Watch, args, "bnmodes watch")
    path = options.to or options.run / "watch.gif"
    film = watch(RunFolder(options.run), path, options.max_decisions, options.seed)
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


def plot(args: list[str]) -> None:
    from bnmodes.analysis.figures.run_curve import learning_curve  # here: matplotlib takes a second

    options = parse(Plot, args, "bnmodes plot")
    learning_curve([RunFolder(path) for path in options.runs], options.to)
    console.print(f"{options.to}")
