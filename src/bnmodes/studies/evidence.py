"""Where do batch statistics at the bootstrap beat running ones, and which property of them does it?

`screen-c51` looks for the factor that opens the gap in C51, and `slow-c51` asks of one factor with
more seeds; `why-c51`, `why-c51-paper`, `why-c51-small` and `why-pqn` take batch statistics apart;
`pong-short` is the paper's PQN diagnostic at its true size, for the first fifth of its runs.
`small-a` is paper-a at a quarter of the pixels, with all of its time constants, and `small-a-short`
the first fifth of its runs.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bnmodes.runs.spec import EvaluationSettings
from bnmodes.studies.paper import A, C
from bnmodes.studies.study import Arm, Contrast, Study

MINATAR_3 = ("minatar/breakout", "minatar/space_invaders", "minatar/asterix")
"""The first two are learnt early; C51 stays near random play on the third for 30,000 decisions."""

C51_DECISIONS = 50_000
C51_BASELINE = {"updates_per_decision": 1.0, "learning_starts_decisions": 1_000}
"""One update per decision. Learning starts in the first fiftieth of a run, as in the paper's, while
most actions are still random."""


def _first_part(study: Study, share: float, **fields: Any) -> Study:
    """The study with runs that end after this share of theirs. ε falls over as many decisions as
    there: by default, in C51 and PQN, over a tenth of a whole run."""
    decay = {"epsilon_decay_fraction": 0.1 / share}
    return replace(
        study,
        arms=tuple(replace(arm, changes=dict(arm.changes) | decay) for arm in study.arms),
        total_decisions=round(share * study.total_decisions),
        **fields,
    )


def _c51(name: str, base: str, **changes: Any) -> Arm:
    return Arm(name, base, changes=C51_BASELINE | changes)


def _c51_study(games: tuple[str, ...] = MINATAR_3, **fields: Any) -> Study:
    return Study(
        games=games,
        total_decisions=C51_DECISIONS,
        record_every_decisions=1_000,
        evaluation=EvaluationSettings(every_decisions=C51_DECISIONS // 10),
        **fields,
    )


SCREENED: dict[str, dict[str, Any]] = {
    "": {},
    "minibatch 4": {"batch_size": 4},
    "minibatch 8": {"batch_size": 8},
    "online α 0.1": {"protocol.predict.update": 0.1},
    "online α 0.001": {"protocol.predict.update": 0.001},
    "learning rate 0.001": {"learning_rate": 1e-3},
    "four layers": {"torso": "minatar-deep"},
}
"""One setting at a time away from minibatch 32, online α 0.01, learning rate 2.5e-4, two layers."""


def _screened(statistics: str, setting: str) -> str:
    return f"BN {statistics}{', ' * bool(setting)}{setting}"


SCREEN_C51 = _c51_study(
    name="screen-c51",
    question="Which factor opens a gap between batch and running statistics at C51's bootstrap on "
    "MinAtar: the size of the minibatch, the weight of the running statistics, the learning rate, "
    "or depth? (A screen: two seeds, to choose what why-c51 asks.)",
    arms=tuple(
        _c51(_screened(statistics, setting), f"bn-{statistics}", **changes)
        for setting, changes in SCREENED.items()
        for statistics in ("running", "batch")
    ),
    seeds=(0, 1),
    reference="BN running",
    contrasts=tuple(
        Contrast(
            _screened("batch", setting),
            _screened("running", setting),
            "Batch statistics at the bootstrap beat running ones "
            + (f"with {setting}." if setting else "at the baseline."),
        )
        for setting in SCREENED
    ),
)

WHY_POOL_ROWS = 256
"""Eight minibatches of 32; the default, 1,024 rows, would take five times as long for an update."""

WHY_C51_ARMS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("BN running", "bn-running", {}),
    ("BN batch", "bn-batch", {}),
    ("BN pool", "bn-pool", {"pool_rows": WHY_POOL_ROWS}),
    ("BN independent", "bn-independent", {}),
    ("BN partner", "bn-partner", {}),
    ("BN running calibrated", "bn-running", {"calibrate_target": True}),
    ("BN joined", "bn-joined", {}),
    ("LN", "ln", {}),
    ("C51", "none", {}),
)
WHY_C51_CONTRASTS = (
    Contrast("BN batch", "BN running", "Batch statistics at the bootstrap beat running ones."),
    Contrast("BN pool", "BN running", "Freshness: fresh statistics without noise beat old ones."),
    Contrast(
        "BN batch",
        "BN independent",
        "Own rows: statistics of the rows themselves are better than those of as many other rows.",
    ),
    Contrast(
        "BN partner",
        "BN independent",
        "Shared noise: of as many other rows, statistics whose noise the prediction shares are "
        "better than statistics whose noise it does not share.",
    ),
    Contrast("BN independent", "BN pool", "Noise: noise in the bootstrap's statistics matters."),
    Contrast(
        "BN batch",
        "BN partner",
        "Population: their own statistics serve the next observations better than those of the "
        "observations.",
    ),
    Contrast(
        "BN joined", "BN batch", "One batch of both populations is better than one batch of each."
    ),
    Contrast(
        "BN running calibrated",
        "BN running",
        "Start: running statistics are better if the first target network's are estimated.",
    ),
    Contrast(
        "BN batch",
        "BN running calibrated",
        "Batch statistics beat running ones that were estimated from the start.",
    ),
    Contrast("BN batch", "LN", "With batch statistics BatchNorm beats LayerNorm."),
)


def _why_c51(name: str, setting: str, changes: Mapping[str, Any]) -> Study:
    return _c51_study(
        name=name,
        question="Which property of batch statistics at C51's bootstrap matters on MinAtar, "
        f"{setting}: that they are fresh, that they are of the next observations, or that their "
        "noise is shared with the prediction?",
        arms=tuple(_c51(label, base, **own, **changes) for label, base, own in WHY_C51_ARMS),
        seeds=(10, 11, 12, 13, 14),
        reference="BN running",
        contrasts=WHY_C51_CONTRASTS,
    )


WHY_C51 = _why_c51(
    "why-c51",
    "with minibatches of 4, where batch statistics gained by both measures in the screen's first "
    "runs",
    {"batch_size": 4},
)
WHY_C51_PAPER = _why_c51("why-c51-paper", "with the paper's minibatches of 32", {})

_SLOW_C51 = {"protocol.predict.update": 0.001}

SLOW_C51 = _c51_study(
    name="slow-c51",
    question="Do batch statistics at C51's bootstrap beat running ones on MinAtar where these "
    "follow slowly, with an online α of 0.001, as the screen's first runs suggest? (Acting and "
    "evaluation read the slow running statistics in both arms.)",
    arms=(_c51("BN running", "bn-running", **_SLOW_C51), _c51("BN batch", "bn-batch", **_SLOW_C51)),
    games=MINATAR_3[:2],
    seeds=(10, 11, 12, 13, 14),
    reference="BN running",
    contrasts=WHY_C51_CONTRASTS[:1],
)

_SLOW = {"protocol.predict.update": "flax:0.999"}

WHY_PQN = Study(
    name="why-pqn",
    question="Which property of batch statistics at PQN's bootstrap matters on MinAtar, where "
    "running statistics follow slowly: that they are fresh, or that their noise is shared? All "
    "BatchNorm arms but BN running act with batch statistics.",
    arms=(
        Arm("BN running", "bn-running", "pqn", _SLOW),
        Arm("BN batch", "bn-batch", "pqn", _SLOW),
        Arm("BN pool", "bn-pool", "pqn", _SLOW),
        Arm("BN independent", "bn-independent", "pqn", _SLOW),
        Arm("BN running at bootstrap", "bn-act-only", "pqn", _SLOW),
        Arm("LN", "ln", "pqn"),
    ),
    games=MINATAR_3[:2],
    seeds=(10, 11, 12, 13, 14),
    total_decisions=200_000,
    record_every_decisions=4_096,
    evaluation=EvaluationSettings(every_decisions=200_000),
    reference="BN batch",
    metric="test",
    final_points=3,
    contrasts=(
        Contrast("BN batch", "BN running", "Batch statistics beat running ones."),
        Contrast(
            "BN pool",
            "BN running at bootstrap",
            "Freshness: fresh statistics without noise beat old ones.",
        ),
        Contrast(
            "BN batch",
            "BN independent",
            "Shared noise: noise of the acting batch itself is better than that of other rows.",
        ),
        Contrast(
            "BN independent", "BN pool", "Noise: noise in the bootstrap's statistics matters."
        ),
        Contrast("BN batch", "LN", "With batch statistics BatchNorm beats LayerNorm."),
    ),
)

PONG_ARMS = (
    "BN running 0.99",
    "BN batch",
    "LN",
    "BN batch at acting only 0.99",
    "BN batch at bootstrap only 0.99",
)

PONG_SHORT = _first_part(
    replace(C, arms=tuple(map(C.arm, PONG_ARMS))),
    share=0.2,
    name="pong-short",
    question="Does PQN stay at random play on Pong with running statistics at the released "
    "momentum, Flax's 0.99, while it learns with batch statistics, and which forward decides? (The "
    "first fifth of paper-c's runs.)",
    seeds=(0, 1),
    note="One or two seeds of one game show directions; no test can judge them.",
    evaluation=EvaluationSettings(every_decisions=2_000_000, test_bins=30),
    contrasts=tuple(
        Contrast("BN batch", other, "Batch statistics recover what running ones break.")
        for other in PONG_ARMS
        if "0.99" in other
    ),
)

SMALL_A_ARMS = ("BN running", "BN batch", "C51", "LN", "BN tracked 0.1")

SMALL_A = replace(
    A.restricted(arms=SMALL_A_ARMS),
    part_of=None,
    name="small-a",
    question="paper-a's question on screens of 42 × 42 pixels, with its time constants: does the "
    "statistics source of the bootstrap forward decide whether BatchNorm helps or harms C51? "
    "(Lengths, target period, update weights and updates per decision are the paper's; pixels and "
    "network are smaller.)",
    arms=tuple(map(A.arm, SMALL_A_ARMS)),
    games=tuple(
        f"atari-small/{game}" for game in ("Breakout", "Boxing", "Freeway", "Pong", "MsPacman")
    ),
)

SMALL_A_SHORT = _first_part(
    SMALL_A,
    share=0.2,
    name="small-a-short",
    question="paper-a's question on screens of 42 × 42 pixels, early in a run, where the gap may "
    "be largest (in the paper running statistics reach 48% of C51's mean score over a run, but 72% "
    "of its final one): the first fifth of small-a's runs, evaluated four times as often.",
    record_every_decisions=2_500,
    evaluation=EvaluationSettings(every_decisions=25_000),
)

WHY_C51_SMALL = _first_part(
    replace(SMALL_A, arms=tuple(Arm(name, base, changes=own) for name, base, own in WHY_C51_ARMS)),
    share=0.1,
    name="why-c51-small",
    question="Which property of batch statistics at C51's bootstrap matters at the start of a run "
    "on screens of 42 × 42 pixels, with the paper's time constants: that they are fresh, that they "
    "are of the next observations, or that their noise is shared with the prediction? (The first "
    "tenth of small-a's runs.)",
    seeds=(10, 11, 12, 13, 14),
    record_every_decisions=2_500,
    evaluation=EvaluationSettings(every_decisions=12_500),
    reference="BN running",
    contrasts=WHY_C51_CONTRASTS,
)

STUDIES = (
    WHY_PQN,
    SCREEN_C51,
    WHY_C51,
    WHY_C51_PAPER,
    SLOW_C51,
    WHY_C51_SMALL,
    PONG_SHORT,
    SMALL_A,
    SMALL_A_SHORT,
)
