"""Commands on single runs: train, explain, audit, watch, plot, env list."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from bnmodes import plugins
from bnmodes.agents.registry import AGENTS, find_agent, require_known
from bnmodes.cli.options import (
    NONE_BY_DEFAULT,
    WITHOUT_DEFAULT,
    RunChoice,
    RunDetails,
    RunOptions,
    details_type,
    parse,
    read_game_and_arm,
)
from bnmodes.envs.registry import env_spec, env_suite, list_envs
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution, keep_freed_memory
from bnmodes.nearest import nearest
from bnmodes.protocol import explain, explain_json
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.sinks import SinkName, require_usable
from bnmodes.runs.spec import RunSpec
from bnmodes.runs.stopping import Stopped
from bnmodes.studies.registry import find_study

# PyTorch takes seconds to import: the commands that need it import what they use.
console = Console(soft_wrap=True, highlight=False, markup=False)

A_RUN = tyro.conf.arg(metavar="RUN | STUDY ARM GAME SEED", help_behavior_hint="(required)")
SEVERAL_RUNS = tyro.conf.arg(metavar="RUN...", help_behavior_hint="(required)")

Details = TypeVar("Details", bound=RunDetails)


@dataclass(frozen=True, kw_only=True)
class HowToTrain:
    """Where a run is kept, and how."""

    out: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """Folder of the run; without it, one under runs/ named by game, agent, arm, seed and hash."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints."""
    threads: int = 0
    """Processor threads; 0: one for small networks, all cores for those of Atari's size."""
    sinks: Annotated[tuple[SinkName, ...], NONE_BY_DEFAULT] = ()
    """Where metrics go besides the run's own file."""


@dataclass(frozen=True, kw_only=True)
class Train(Generic[Details]):
    """Train an agent. The same command again goes on with a stopped run."""

    # All are nested, so that --help shows them in this order.
    choice: Annotated[RunChoice, tyro.conf.arg(name="")]
    """What to run."""
    how: Annotated[HowToTrain, tyro.conf.arg(name="")] = HowToTrain()
    """How to run it."""
    details: Annotated[Details, tyro.conf.arg(name="")]
    """What else to run."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = PLAIN
    """How it is computed; a stopped run may go on with another way."""


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
    else:
        require_known(agent)
    return agent, rest


def described(agent: str) -> str:
    """The agent in a line, and its arms in another: the help's own first lines are not wrapped."""
    kind = find_agent(agent)
    return f"{kind.summary}.\n\nArms: {', '.join(kind.arms)}."


def train_command(args: list[str]) -> None:
    agent, args = agent_named(args, "train")
    default, rest = read_game_and_arm(agent, args)
    import torch

    from bnmodes.runs.loop import train

    generic: Any = Train
    options_type = generic[details_type(agent)]
    given = parse(
        options_type,
        rest,
        f"bnmodes train {agent}",
        options_type(choice=default.choice, details=default.details),
        f"Train {described(agent)}\n\nThe same command again goes on with a stopped run.",
    )
    spec = RunOptions(agent=agent, choice=given.choice, details=given.details).spec()
    options: HowToTrain = given.how
    if options.threads < 0:
        raise UsageError(f"threads is {options.threads}, but must be at least 0.")
    if not options.checkpoint_minutes > 0:
        raise UsageError(
            f"checkpoint_minutes is {options.checkpoint_minutes}, but must be above 0."
        )
    require_usable(options.sinks)
    given.execution.validate_here()
    env_spec(spec.env)  # refuses a game that cannot be made
    all_cores = find_agent(agent).suite_defaults(env_suite(spec.env)).all_cores
    torch.set_num_threads(options.threads or (os.cpu_count() or 1 if all_cores else 1))
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
            execution=given.execution,
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
class AsJson:
    """How to print it."""

    json: bool = False
    """Print JSON for programs."""


@dataclass(frozen=True, kw_only=True)
class Explain(Generic[Details]):
    """Show the protocol of a run: parameters, batch, statistics and updates of each forward."""

    choice: Annotated[RunChoice, tyro.conf.arg(name="")]
    """What to explain."""
    how: Annotated[AsJson, tyro.conf.arg(name="")] = AsJson()
    """How to print it."""
    details: Annotated[Details, tyro.conf.arg(name="")]
    """What else to explain."""


def explain_command(args: list[str]) -> None:
    """`explain AGENT …`, or `explain RUN` of a run's folder."""
    if not args:
        raise UsageError("say what to explain: `bnmodes explain c51 …` or `bnmodes explain RUN`.")
    if (nearest(args[0], AGENTS) and not Path(args[0]).exists()) or plugins.is_reference(args[0]):
        agent, args = agent_named(args, "explain")
        default, rest = read_game_and_arm(agent, args)
        generic: Any = Explain
        options_type = generic[details_type(agent)]
        given = parse(
            options_type,
            rest,
            f"bnmodes explain {agent}",
            options_type(choice=default.choice, details=default.details),
            f"Explain {described(agent)}",
        )
        spec = RunOptions(agent=agent, choice=given.choice, details=given.details).spec()
        as_json = given.how.json
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
        from bnmodes.networks.torsos import torso_description

        layers = torso_description(torso, env_spec(spec.env).obs_shape)
        notes += [f"Hidden layers that read an observation (torso {torso}): {layers}."]
    if not kind.is_tuned_for(suite):
        notes += [f"Nobody tuned {kind.name} for these games: its preset for others is used."]
    if notes:
        print("\n" + "\n".join(notes))


@dataclass(frozen=True)
class OfRun:
    """A run, finished or stopped, and the files that it needs."""

    run: Annotated[tyro.conf.Positional[tuple[str, ...]], A_RUN]
    """Folder of a run; or four words that find one of a study, e.g. quick LN minatar/breakout 0."""
    out: Path = Path("results")
    """Folder of results, where a run of a study is looked for."""
    plugin: Annotated[tuple[Path, ...], NONE_BY_DEFAULT] = ()
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
        study = find_study(name).restricted([arm], [game], [seed])
        from bnmodes.studies.results import run_path

        (run,) = study.runs
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
    folder = options.folder()
    from bnmodes.runs.audit import audit_run

    audits, notes = audit_run(folder, options.game_seed)
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

    to: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """GIF to write; without it, watch.gif in the run's folder."""
    max_decisions: int = 1_000
    """Longest film (decisions)."""
    game_seed: int = 0
    """Which game is played."""


def watch_command(args: list[str]) -> None:
    options = parse(Watch, args, "bnmodes watch")
    folder = options.folder()
    from bnmodes.runs.watch import watch

    path = options.to or folder.path / "watch.gif"
    film = watch(folder, path, options.max_decisions, options.game_seed, options.study_arm)
    for note in film.notes:
        console.print(note)
    end = "whole game" if film.game_over else "so far"
    console.print(f"{path}: {film.decisions} decisions, return {film.game_return:g} ({end})")


@dataclass(frozen=True)
class Plot:
    """Draw the learning curve of runs as a picture."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], SEVERAL_RUNS]
    """Folders of runs."""
    to: Path = Path("curve.png")
    """Picture to write; the ending chooses PNG, PDF or SVG."""
    plugin: Annotated[tuple[Path, ...], NONE_BY_DEFAULT] = ()
    """Files of your own that the runs' agents or games are in; results never import them."""


def plot(args: list[str]) -> None:
    options = parse(Plot, args, "bnmodes plot")
    load_plugins(options.plugin, options.runs)
    from bnmodes.analysis.figures.run_curve import learning_curve

    learning_curve([RunFolder(path) for path in options.runs], options.to)
    console.print(f"{options.to}")
