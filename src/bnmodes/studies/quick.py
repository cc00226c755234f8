"""Studies that fit a laptop."""

from bnmodes.studies.spec import Arm, Study
from bnmodes.training.spec import EvaluationConfig

QUICK_C51 = Study(
    name="quick-c51",
    question="Study A's question at MinAtar size: do the bootstrap statistics of a BatchNorm C51 "
    "change its return within 40,000 decisions? (The paper's claim is about Atari; stored moments "
    "mismatch far less here.)",
    arms=(
        Arm("C51", "none"),
        Arm("LN", "ln"),
        Arm("BN running", "bn-running"),
        Arm("BN tracked 0.1", "bn-tracked", weights={"tracking_alpha": 0.1}),
        Arm("BN batch", "bn-batch"),
    ),
    games=("minatar/breakout", "minatar/space_invaders"),
    seeds=(0, 1, 2),
    total_decisions=40_000,
    record_every_decisions=1_000,
    evaluation=EvaluationConfig(every_decisions=4_000),
    reference="C51",
)

QUICK_ACTOR_CRITICS = Study(
    name="quick-actor-critics",
    question="Study F's agents at MinAtar size, and CrossQ's argument: does a BatchNorm critic "
    "need (s, a) and (s', a') in one batch, or will two batches, or stored moments, do?",
    arms=(
        Arm("XQC", "bn-joined", "xqc"),
        Arm("XQC separate", "bn-separate", "xqc"),
        Arm("XQC running", "bn-running", "xqc"),
        Arm("CrossQ", "crossq", "xqc"),
        Arm("MR.Q", "ln", "mrq"),
        Arm("TD3", "none", "td3"),
    ),
    games=("minatar/breakout", "minatar/space_invaders"),
    seeds=(0, 1, 2),
    total_decisions=20_000,
    record_every_decisions=1_000,
    evaluation=EvaluationConfig(every_decisions=2_000, epsilon=0.0),
    reference="TD3",
)

STUDIES = (QUICK_C51, QUICK_ACTOR_CRITICS)
