"""Options: what a run can be told, and how words become records."""

import argparse
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import tyro

from bnmodes import plugins
from bnmodes.agents.agent import Settings
from bnmodes.agents.registry import arm_label, find_agent
from bnmodes.envs.registry import canonical_name, env_suite
from bnmodes.protocol import alpha, require_weight
from bnmodes.runs.spec import DiagnosticsSettings, EvaluationSettings, RunSpec, make_spec

_DEFAULT_GAME = "minatar/breakout"

# What --help says of a default, where the option's own text says what happens without it.
WITHOUT_DEFAULT = tyro.conf.arg(metavar="PATH", help_behavior_hint="")
ALL_BY_DEFAULT = tyro.conf.arg(help_behavior_hint="(default: all)")
NONE_BY_DEFAULT = tyro.conf.arg(help_behavior_hint="(default: none)")

AnySettings = TypeVar("AnySettings", bound=Settings)


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """What people set most; the defaults shown are those of the game and the arm given."""

    env: str
    """Game: minatar/breakout, atari/Pong, my_games.py:make_it, …; `bnmodes env list` shows all."""
    arm: str
    """Arm of the agent: sets norm and protocol, and what else tells its arms apart."""
    seed: int
    """The one seed that everything random comes from."""
    total_decisions: int
    """Length of the run (decisions; one is four frames on Atari, one elsewhere)."""


@dataclass(frozen=True, kw_only=True)
class RunDetails(Generic[AnySettings]):
    """Everything else that a run's result depends on."""

    record_every_decisions: int
    """Decisions between two rows of training metrics."""
    evaluation: EvaluationSettings
    """Separate evaluation: its own environments, one full game in each."""
    diagnostics: DiagnosticsSettings
    """What is measured inside the networks while they learn; it changes nothing in training."""
    fire_on_life_loss: bool
    """Atari: press FIRE at the first decision after a life loss, whatever the agent chose."""
    noops_on_life_loss: bool
    """Atari: before that FIRE, wait up to 29 frames (in whole decisions), as EnvPool does."""
    settings: Annotated[AnySettings, tyro.conf.arg(name="")]
    """The agent."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options as they were given, or their defaults: which run."""

    agent: str
    choice: RunChoice
    details: RunDetails

    def spec(self) -> RunSpec:
        choice, details = self.choice, self.details
        spec = RunSpec(
            agent=self.agent,
            env=canonical_name(choice.env),
            arm=arm_label(self.agent, choice.arm, env_suite(choice.env), details.settings),
            seed=choice.seed,
            total_decisions=choice.total_decisions,
            record_every_decisions=details.record_every_decisions,
            evaluation=details.evaluation,
            diagnostics=details.diagnostics,
            settings=details.settings,
            fire_on_life_loss=details.fire_on_life_loss,
            noops_on_life_loss=details.noops_on_life_loss,
            agent_revision=find_agent(self.agent).revision,
        )
        spec.validate()
        return spec


def details_type(agent: str) -> Any:
    """`RunDetails` with the type of the agent's settings filled in."""
    generic: Any = RunDetails
    return generic[find_agent(agent).settings]


def read_game_and_arm(agent: str, args: list[str]) -> tuple[RunOptions, list[str]]:
    """Game and arm decide all other defaults, so they are read first: the options with these
    defaults, and the words that are left to read."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--env", nargs="?", default=_DEFAULT_GAME)
    first.add_argument("--arm", nargs="?", default="")
    known, rest = first.parse_known_args(args)
    env, arm = known.env, known.arm
    if env is None or arm is None:  # an option without its value: the parser says so
        rest, env, arm = args, _DEFAULT_GAME, ""
    if plugins.is_reference(env):
        env = plugins.name_here(env)
    env_suite(env)  # refuses an unknown game before the agent, and PyTorch, are imported
    arm = arm or find_agent(agent).default_arm
    default = make_spec(agent, env, arm)
    choice = RunChoice(
        env=default.env, arm=arm, seed=default.seed, total_decisions=default.total_decisions
    )
    details = details_type(agent)(
        record_every_decisions=default.record_every_decisions,
        evaluation=default.evaluation,
        diagnostics=default.diagnostics,
        fire_on_life_loss=default.fire_on_life_loss,
        noops_on_life_loss=default.noops_on_life_loss,
        settings=default.settings,
    )
    return RunOptions(agent=agent, choice=choice, details=details), rest


def parse(
    options: Any,
    args: list[str],
    program: str,
    default: Any = None,
    description: str | None = None,
) -> Any:
    """Words to a record of the class `options` (which may be generic, with its type filled in);
    `default` gives the values of what is not said, and `description` begins the help."""
    return tyro.cli(
        options,
        args=args,
        prog=program,
        description=description,
        default=tyro.MISSING_NONPROP if default is None else default,
        config=(
            tyro.conf.AvoidSubcommands,
            tyro.conf.PositionalMetavarFromFieldName,
        ),
        registry=_registry,
    )


_registry = tyro.constructors.ConstructorRegistry()


@_registry.primitive_rule
def _update_weight(info: tyro.constructors.PrimitiveTypeInfo):
    """Every optional float of our options is an update weight, in either convention."""
    if info.type != float | None:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="ALPHA",
        instance_from_str=lambda text: _weight(text[0]),
        is_instance=lambda value: value is None or isinstance(value, float),
        str_from_instance=lambda value: ["none" if value is None else f"{value:g}"],
    )


def _weight(text: str) -> float | None:
    if text == "none":
        return None
    weight = alpha(text)
    require_weight(weight, "update")  # here, so that the error names the option
    return weight
