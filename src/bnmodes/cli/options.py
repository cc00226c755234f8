"""Options: what a run can be told, and how words become records."""

import argparse
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import tyro

from bnmodes.agents.c51 import C51_ARMS, C51Settings, c51_config
from bnmodes.agents.mrq_config import MRQ_ARMS, MRQConfig, mrq_config
from bnmodes.agents.pqn import PQN_ARMS, PQNSettings, pqn_config
from bnmodes.agents.registry import AGENTS, AgentName
from bnmodes.agents.td3_config import TD3_ARMS, TD3Config, td3_config
from bnmodes.agents.xqc_config import XQC_ARMS, XQCConfig, xqc_config
from bnmodes.envs.registry import canonical_name, env_family
from bnmodes.errors import UsageError
from bnmodes.protocol import alpha
from bnmodes.runs.spec import DiagnosticsSettings, EvaluationSettings, RunSpec

CHANGED = "-changed"
"""Ends the label of an arm whose defining options were overridden: it is no longer that arm."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What to run. The defaults shown are those of the game and the arm that were given."""

    agent: ClassVar[AgentName]
    read_first: ClassVar = ("env", "arm", "alpha")
    """The options that decide the defaults of the others."""

    env: str = "minatar/breakout"
    """Game: minatar/breakout, atari/Pong, …; `bnmodes env list` shows all."""
    seed: int = 0
    """The one seed that everything random comes from."""
    total_decisions: int = 300_000
    """Length of the run (decisions; one is four frames on Atari, one on MinAtar)."""
    record_every_decisions: int = 1_000
    """Decisions between two rows of training metrics."""
    evaluation: EvaluationSettings = EvaluationSettings(every_decisions=25_000)
    """Separate evaluation: its own environments, one full game in each."""
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
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
            config=self.settings,
        )
        spec.validate()
        return spec

    def _arm_label(self) -> str:
        own = self.default(**{name: getattr(self, name) for name in self.read_first}).settings
        same = all(getattr(own, name) == getattr(self.settings, name) for name in self.defining)
        return self.arm if same else self.arm + CHANGED


@dataclass(frozen=True, kw_only=True)
class C51Run(RunOptions):
    agent: ClassVar[AgentName] = "c51"
    defining: ClassVar = ("protocol", "norm", "projection", "learning_rate_schedule")

    arm: Literal[C51_ARMS] = "bn-batch"
    """One of the paper's arms: sets norm, protocol, projection and learning-rate schedule."""
    alpha: str = "0.01"
    """Tracking weight α of the arm bn-tracked; flax:0.99 gives it as Flax momentum."""
    config: Annotated[C51Settings, tyro.conf.arg(name="")] = c51_config("bn-batch", "minatar")
    """The agent."""

    @classmethod
    def default(cls, env: str, arm: str, alpha: str) -> "C51Run":
        """The paper's scale on Atari, a laptop's elsewhere."""
        if alpha != cls.alpha and arm != "bn-tracked":
            raise UsageError(f"--alpha is the weight of the arm bn-tracked; {arm} has none.")
        family = env_family(env)
        config = c51_config(arm, family, alpha)
        run = cls(env=env, arm=arm, alpha=alpha, config=config)
        if family != "atari":
            return run
        return replace(
            run,
            total_decisions=1_250_000,
            record_every_decisions=10_000,
            evaluation=EvaluationSettings(),
        )


@dataclass(frozen=True, kw_only=True)
class PQNRun(RunOptions):
    agent: ClassVar[AgentName] = "pqn"
    defining: ClassVar = ("protocol", "norm", "bootstrap_source", "head")

    arm: Literal[PQN_ARMS] = "bn-batch"
    """One of the paper's arms: sets norm and protocol."""
    alpha: str = "0.01"
    """Weight α with which BatchNorm's loss forward writes the stored moments; flax:0.99 gives it
    as Flax momentum."""
    config: Annotated[PQNSettings, tyro.conf.arg(name="")] = pqn_config("bn-batch", "minatar")
    """The agent."""

    @classmethod
    def default(cls, env: str, arm: str, alpha: str) -> "PQNRun":
        """The paper's Pong diagnostic on Atari, a laptop's scale elsewhere."""
        if alpha != cls.alpha and not arm.startswith("bn-"):
            raise UsageError(f"--alpha is a weight of BatchNorm; the arm {arm} has none.")
        family = env_family(env)
        config = pqn_config(arm, family, alpha)
        decisions = 10_000_000 if family == "atari" else 400_000
        return cls(
            env=env,
            arm=arm,
            alpha=alpha,
            config=config,
            total_decisions=decisions,
            record_every_decisions=decisions // 100,
            evaluation=EvaluationSettings(every_decisions=decisions),
        )


class ActorCriticRun(RunOptions):
    """The actor-critic study's scale on Atari, a laptop's elsewhere."""

    @classmethod
    def default(cls, env: str, arm: str, **weights: str) -> "ActorCriticRun":
        family = env_family(env)
        config = AGENTS[cls.agent].arm_config(arm, family, *weights.values())
        run = cls(env=env, arm=arm, config=config, total_decisions=40_000, **weights)
        if family != "atari":
            return replace(run, evaluation=EvaluationSettings(4_000, epsilon=0.0))
        return replace(
            run,
            total_decisions=1_250_000,
            record_every_decisions=10_000,
            evaluation=EvaluationSettings(50_000, epsilon=0.0),
        )


@dataclass(frozen=True, kw_only=True)
class TD3Run(ActorCriticRun):
    agent: ClassVar[AgentName] = "td3"
    read_first: ClassVar = ("env", "arm")
    defining: ClassVar = ("protocol",)

    arm: Literal[TD3_ARMS] = "none"
    """TD3 has no normalisation, so there is one arm."""
    config: Annotated[TD3Config, tyro.conf.arg(name="")] = td3_config("none", "minatar")
    """The agent."""


@dataclass(frozen=True, kw_only=True)
class XQCRun(ActorCriticRun):
    agent: ClassVar[AgentName] = "xqc"
    defining: ClassVar = ("protocol", "norm", "projection")

    arm: Literal[XQC_ARMS] = "bn-joined"
    """Which rows and moments the critics see: sets protocol and norm."""
    alpha: str = "0.01"
    """Weight α with which loss forwards write the stored moments; flax:0.99 gives it as Flax
    momentum."""
    config: Annotated[XQCConfig, tyro.conf.arg(name="")] = xqc_config("bn-joined", "minatar")
    """The agent."""


@dataclass(frozen=True, kw_only=True)
class MRQRun(ActorCriticRun):
    agent: ClassVar[AgentName] = "mrq"
    read_first: ClassVar = ("env", "arm")
    defining: ClassVar = ("protocol",)

    arm: Literal[MRQ_ARMS] = "ln"
    """MR.Q's LayerNorm is part of it, so there is one arm."""
    config: Annotated[MRQConfig, tyro.conf.arg(name="")] = mrq_config("ln", "minatar")
    """The agent."""


RUNS: dict[AgentName, type[RunOptions]] = {
    options.agent: options for options in (C51Run, PQNRun, TD3Run, XQCRun, MRQRun)
}
"""The options of each agent's runs."""


def default_run_of(options: type[RunOptions], args: list[str]) -> RunOptions:
    """Game and arm decide the other defaults, so they are read first."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in options.read_first:
        first.add_argument(f"--{name}", nargs="?", default=getattr(options, name))
    known = vars(first.parse_known_args(args)[0])
    if None in known.values():
        return options()  # an option without its value: the real parser says so
    return options.default(**known)


def parse(options: Any, args: list[str], program: str, default: Any = None) -> Any:
    """Words to a record of the class `options` (which may be generic, with its type filled in);
    `default` gives the values of what is not said."""
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
