"""PQN's arms: the norm, and which statistics acting and bootstrapping use."""

from typing import Any

from bnmodes.networks.norms import NormKind, NormSettings
from bnmodes.protocol import BATCH, RUNNING, Forward, Mode, Moments, Protocol

NO_BATCHNORM = Mode(statistics="none")


def pqn_protocol(
    act: Mode = NO_BATCHNORM,
    bootstrap: Mode = NO_BATCHNORM,
    predict: Mode = NO_BATCHNORM,
    bootstrap_moments: Moments = "own",
) -> Protocol:
    """There is no target network. Training and greedy test environments act in one batch, and a
    separate evaluation uses the statistics of acting on its own batch."""
    return Protocol(
        predict=Forward.of(predict, "online", "rollout"),
        bootstrap=Forward.of(bootstrap, "online", "rollout", bootstrap_moments),
        act=Forward.of(act, "online", "acting+test"),
        evaluate=Forward.of(act, "online", "evaluation"),
    )


def _arm(
    norm: NormKind,
    act: Mode = NO_BATCHNORM,
    bootstrap: Mode = NO_BATCHNORM,
    bootstrap_moments: Moments = "own",
) -> dict[str, Any]:
    """The settings that make an arm. BatchNorm's predict always uses its batch, and as in the
    authors' code the running variance is the biased one."""
    predict = Mode(statistics="batch", update=0.01) if norm == "bn" else NO_BATCHNORM
    return {
        "norm": NormSettings(norm, bn_stored_variance="biased" if norm == "bn" else "unbiased"),
        "protocol": pqn_protocol(act, bootstrap, predict, bootstrap_moments),
        "bootstrap_source": "recompute",
        "head": "scalar",
    }


ARMS = {
    "none": _arm("none"),
    "ln": _arm("ln"),
    "bn-running": _arm("bn", act=RUNNING, bootstrap=RUNNING),
    "bn-bootstrap-only": _arm("bn", act=RUNNING, bootstrap=BATCH),
    "bn-act-only": _arm("bn", act=BATCH, bootstrap=RUNNING),
    "bn-batch": _arm("bn", act=BATCH, bootstrap=BATCH),
    "bn-independent": _arm("bn", BATCH, BATCH, "independent"),
    "bn-pool": _arm("bn", BATCH, BATCH, "pool"),
}
