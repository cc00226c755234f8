"""Options: what a C51 run can be told, and how words become records."""

import argparse
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeVar

import tyro

from bnmodes.agents.c51 import ARMS, C51Config, c51_config
from bnmodes.envs.registry import canonical_name, env_family
from bnmodes.errors import UsageError
from bnmodes.protocol import alpha
from bnmodes.training.spec import EvaluationConfig, RunSpec

Options = TypeVar("Options")


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
            arm=self._arm_label(),
            seed=self.seed,
            total_decisions=self.total_decisions,
            record_every_decisions=self.record_every_decisions,
            evaluation=self.evaluation,
            config=self.config,
        )
        spec.validate()
        return spec

    def _arm_label(self) -> str:
        arms_own = c51_config(self.arm, env_family(self.env), self.alpha)
        defining = ("protocol", "norm", "projection", "learning_rate_schedule")
        same = all(getattr(arms_own, name) == getattr(self.config, name) for name in defining)
        return self.arm if same else self.arm + CHANGED


CHANGED = "-changed"
"""Ends the label of an arm whose defining options were overridden: it is no longer that arm."""


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


def default_run_of(args: list[str]) -> C51Run:
    """Game and arm decide the other defaults, so they are read first."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("env", "arm", "alpha"):
        first.add_argument(f"--{name}", nargs="?", default=getattr(C51Run, name))
    known, _ = first.parse_known_args(args)
    if None in (known.env, known.arm, known.alpha):
        return C51Run()  # an option without its value: the real parser says so
    if known.alpha != C51Run.alpha and known.arm != "bn-tracked":
        raise UsageError(f"--alpha is the weight of the arm bn-tracked; {known.arm} has none.")
    return default_run(known.env, known.arm, known.alpha)


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
