"""Options: what a run can be told, and how words become records."""

import argparse
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, TypeVar

import tyro

from bnmodes.agents import c51, pqn
from bnmodes.agents.c51 import C51Config, c51_config
from bnmodes.agents.catalogue import AgentName
from bnmodes.agents.pqn import PQNConfig, pqn_config
from bnmodes.envs.registry import canonical_name, env_family
from bnmodes.errors import UsageError
from bnmodes.protocol import alpha
from bnmodes.training.spec import DiagnosticsConfig, EvaluationConfig, RunSpec

Options = TypeVar("Options")

CHANGED = "-changed"
"""Ends the label of an arm whose defining options were overridden: it is no longer that arm."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What to run. The defaults shown are those of the game and the arm that were given."""

    agent: ClassVar[AgentName]

    env: str = "minatar/breakout"
    """Game: minatar/breakout, atari/Pong, …; `bnmodes env list` shows all."""
    seed: int = 0
    """The one seed that everything random comes from."""
    total_decisions: int = 300_000
    """Length of the run (decisions; one is four frames on Atari, one on MinAtar)."""
    record_every_decisions: int = 1_000
    """Decisions between two rows of training metrics."""
    evaluation: EvaluationConfig = EvaluationConfig(every_decisions=25_000)
    """Separate evaluation: its own environments, one full game in each."""
    diagnostics: DiagnosticsConfig = DiagnosticsConfig()
    """What is measured inside the networks while they learn; it changes nothing in training."""

    def spec(self) -> RunSpec:
        spec = RunSpec(
            agent=self.agent,
            env=canonical_name(self.env),
            arm=self._arm_label(),
            seed=self.seed,
            total_decisions=self.total_decisions,
            record_every_decisions=self.record_every_decisions,
            evaluation=self.evaluation,
            diagnostics=self.diagnostics,
            config=self.config,
        )
        spec.validate()
        return spec

    def _arm_label(self) -> str:
        own = self.default(self.env, self.arm, self.alpha).config
        same = all(getattr(own, name) == getattr(self.config, name) for name in self.defining)
        return self.arm if same else self.arm + CHANGED


@dataclass(frozen=True, kw_only=True)
class C51Run(RunOptions):
    agent: ClassVar[AgentName] = "c51"
    defining: ClassVar = ("protocol", "norm", "projection", "learning_rate_schedule")

    arm: Literal[c51.ARMS] = "bn-batch"
    """One of the paper's arms: sets norm, protocol, projection and learning-rate schedule."""
    alpha: str = "0.01"
    """Tracking weight α of the arm bn-tracked; flax:0.99 gives it as Flax momentum."""
    config: Annotated[C51Config, tyro.conf.arg(name="")] = c51_config("bn-batch", "minatar")
    """The agent."""

    @classmethod
    def default(cls, env: str, arm: str, tracking_alpha: str) -> "C51Run":
        """The paper's scale on Atari, a laptop's elsewhere."""
        if tracking_alpha != cls.alpha and arm != "bn-tracked":
            raise UsageError(f"--alpha is the weight of the arm bn-tracked; {arm} has none.")
        family = env_family(env)
        config = c51_config(arm, family, tracking_alpha)
        run = cls(env=env, arm=arm, alpha=tracking_alpha, config=config)
        if family != "atari":
            return run
        return replace(
            run,
            total_decisions=1_250_000,
            record_every_decisions=10_000,
            evaluation=EvaluationConfig(),
        )


@dataclass(frozen=True, kw_only=True)
class PQNRun(RunOptions):
    agent: ClassVar[AgentName] = "pqn"
    defining: ClassVar = ("protocol", "norm", "bootstrap_source", "head")

    arm: Literal[pqn.ARMS] = "bn-batch"
    """One of the paper's arms: sets norm and protocol."""
    alpha: str = "0.01"
    """Weight α with which BatchNorm's loss forward writes the stored moments; flax:0.99 gives it
    as Flax momentum."""
    config: Annotated[PQNConfig, tyro.conf.arg(name="")] = pqn_config("bn-batch", "minatar")
    """The agent."""

    @classmethod
    def default(cls, env: str, arm: str, online_alpha: str) -> "PQNRun":
        """The paper's Pong diagnostic on Atari, a laptop's scale elsewhere."""
        if online_alpha != cls.alpha and not arm.startswith("bn-"):
            raise UsageError(f"--alpha is a weight of BatchNorm; the arm {arm} has none.")
        family = env_family(env)
        config = pqn_config(arm, family, online_alpha)
        decisions = 10_000_000 if family == "atari" else 400_000
        return cls(
            env=env,
            arm=arm,
            alpha=online_alpha,
            config=config,
            total_decisions=decisions,
            record_every_decisions=decisions // 100,
            evaluation=EvaluationConfig(every_decisions=decisions),
        )


def default_run_of(options: type[RunOptions], args: list[str]) -> RunOptions:
    """Game and arm decide the other defaults, so they are read first."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("env", "arm", "alpha"):
        first.add_argument(f"--{name}", nargs="?", default=getattr(options, name))
    known, _ = first.parse_known_args(args)
    if None in (known.env, known.arm, known.alpha):
        return options()  # an option without its value: the real parser says so
    return options.default(known.env, known.arm, known.alpha)


def parse(
    options: type[Options], args: list[str], program: str, default: Options | None = None
) -> Options:
    """Words to a record; `default` gives the values of what is not said."""
    return tyro.cli(
        options,
        args=args,
        prog=program,
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
        instance_from_str=lambda text: None if text == ["none"] else alpha(text[0]),
        is_instance=lambda value: value is None or isinstance(value, float),
        str_from_instance=lambda value: ["none" if value is None else f"{value:g}"],
    )
