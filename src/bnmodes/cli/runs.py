"""Commands on runs by their options: train, explain; and env list."""

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from bnmodes import plugins
from bnmodes.agents.registry import AGENTS, arm_settings, find_agent, require_known
from bnmodes.cli.existing_runs import OfRun
from bnmodes.cli.options import (
    NONE_BY_DEFAULT,
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
from bnmodes.protocol import Forward, Protocol, explain, explain_json
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.sinks import SinkName, require_usable
from bnmodes.runs.spec import RunSpec
from bnmodes.runs.stopping import Stopped

# PyTorch takes seconds to import: the commands that need it import what they use.
console = Console(soft_wrap=True, highlight=False, markup=False)

NAMED_BY_DEFAULT = tyro.conf.arg(
    metavar="PATH",
    help_behavior_hint="(default: under runs/, named by game, agent, arm, seed and hash)",
)

Details = TypeVar("Details", bound=RunDetails)


@dataclass(frozen=True, kw_only=True)
class HowToTrain:
    """Where a run is kept, and how."""

    out: Annotated[Path | None, NAMED_BY_DEFAULT] = None
    """Folder of the run."""
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
        lines += ["  FILE.py:NAME an agent of your own file", ""]
        lines += [f"`bnmodes {command} c51 --help` shows the options of c51, and so on."]
        print("\n".join([usage, "", *lines]))
        sys.exit(0 if args else 2)
    agent, *rest = args
    if plugins.is_reference(agent):
        agent = plugins.name_here(agent)
    else:
        require_known(agent)
    return agent, rest


def described(agent: str, env: str) -> str:
    """The agent in a line, and a line for each of its arms."""
    kind = find_agent(agent)
    width = max(map(len, kind.arms))
    arms = [
        f"  {arm.ljust(width)}  {_in_short(arm_settings(agent, arm, env_suite(env)).protocol)}"
        for arm in kind.arms
    ]
    return "\n".join(
        [f"{kind.summary}.", "", "Arms, and the statistics of their BatchNorm:", *arms]
    )


def _in_short(protocol: Protocol) -> str:
    """The statistics of the two roles that arms differ in most."""
    words = {"bootstrap": _statistics(protocol.bootstrap), "act": _statistics(protocol.act)}
    if set(words.values()) == {"none"}:
        return "no BatchNorm"
    return "; ".join(f"{role}: {statistics}" for role, statistics in words.items())


def _statistics(forward: Forward) -> str:
    if forward.track is not None:
        return "tracked"
    if forward.population in ("joined", "acting+replay"):
        return f"{forward.statistics} ({forward.population})"
    return forward.statistics + f" ({forward.moments})" * (forward.moments != "own")


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
        f"Train {described(agent, default.choice.env)}\n\n"
        "The same command again goes on with a stopped run.",
    )
    spec = RunOptions(agent=agent, choice=given.choice, details=given.details).spec()
    options: HowToTrain = given.how
    cores = os.cpu_count() or 1
    if not 0 <= options.threads <= cores:
        raise UsageError(f"threads is {options.threads}, but must be 0 to {cores}, the cores here.")
    if not 0 < options.checkpoint_minutes < math.inf:
        raise UsageError(
            f"checkpoint_minutes is {options.checkpoint_minutes}, but must be above 0."
        )
    require_usable(options.sinks)
    given.execution.validate_here()
    env_spec(spec.env)  # refuses a game that cannot be made
    all_cores = find_agent(agent).suite_defaults(env_suite(spec.env)).all_cores
    torch.set_num_threads(options.threads or (cores if all_cores else 1))
    keep_freed_memory()
    path = options.out or Path("runs") / folder_name(spec)
    if RunFolder(path).finished and RunFolder(path).spec() == spec:
        for sentence in RunFolder(path).changed_plugins():
            console.print(f"note: {sentence}")
        console.print(f"{path} is finished: nothing to do.")
        return
    if not path.exists() or path.is_dir():
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
    if (last_finite := folder.last_finite_decision) is not None:
        console.print(
            "diverged: the networks held numbers that are not finite, and the run ended; at "
            f"decision {last_finite:,} all were. See {path}"
        )
        return
    console.print(
        f"finished {spec.total_decisions:,} decisions; mean return {last_returns(folder)}. "
        f"See {path}"
    )


def last_returns(folder: RunFolder) -> str:
    """In words: of the last test games where an agent has them, and of the last evaluation."""
    spec, rows = folder.spec(), folder.metrics()
    found = [
        f"of the test environments' last games: {row['return']:.2f}"
        for row in rows
        if row["kind"] == "test" and "return" in row
    ][-1:]
    evaluation = [row["return"] for row in rows if row["kind"] == "evaluation"][-1]
    games = spec.evaluation.episodes
    of_batch = spec.settings.protocol.evaluate.statistics == "batch"
    how = f" (with batch statistics of their {games} rows only)" if of_batch else ""
    return "; ".join([*found, f"of {games} evaluation games{how}: {evaluation:.2f}"])


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
            f"Explain {described(agent, default.choice.env)}",
        )
        spec = RunOptions(agent=agent, choice=given.choice, details=given.details).spec()
        env_spec(spec.env)  # refuses a game that cannot be made, before anything is printed
        as_json = given.how.json
    else:
        of_run = parse(ExplainRun, args, "bnmodes explain")
        spec, as_json = of_run.folder().spec(), of_run.json
    capabilities = spec.settings.capabilities(spec.evaluation.episodes)
    if as_json:
        print(explain_json(spec.settings.protocol, capabilities))
        return
    kind, suite = find_agent(spec.agent), env_suite(spec.env)
    notes = spec.settings.notes()
    if torso := getattr(spec.settings, "torso", None):
        from bnmodes.networks.torsos import torso_description

        layers = torso_description(torso, env_spec(spec.env).obs_shape)
        notes += [f"Hidden layers that read an observation (torso {torso}): {layers}."]
    print(f"{kind.name.upper()}, arm {spec.arm}, on {spec.env}\n")
    print(explain(spec.settings.protocol, capabilities))
    if not kind.is_tuned_for(suite):
        notes += [f"Nobody tuned {kind.name} for these games: its preset for others is used."]
    if notes:
        print("\n" + "\n".join(notes))


@dataclass(frozen=True)
class ExplainRun(OfRun):
    """Show the protocol of a run folder, or, as `bnmodes explain c51 …`, of options."""

    json: bool = False
    """Print JSON for programs."""


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
