"""Studies that fit a laptop."""

from bnmodes.runs.spec import EvaluationSettings
from bnmodes.studies.study import Arm, Study


def _pqn_arms(*momenta: tuple[str, str, float]) -> tuple[Arm, ...]:
    """LN, BatchNorm arms by (label, arm, Flax momentum of the running statistics), and BN batch,
    which reads no running statistics."""
    slow = (
        Arm(
            f"BN {label} {momentum:g}",
            arm,
            "pqn",
            {"protocol.predict.update": f"flax:{momentum:g}"},
        )
        for label, arm, momentum in momenta
    )
    return (Arm("LN", "ln", "pqn"), *slow, Arm("BN batch", "bn-batch", "pqn"))


DEMO = Study(
    name="demo",
    question="Does BatchNorm in PQN fail on MinAtar Breakout with running statistics that follow "
    "slowly, in which forward, and do batch statistics recover it? (The smallest study that shows "
    "it.)",
    arms=_pqn_arms(
        ("running", "bn-running", 0.999),
        ("batch at bootstrap only", "bn-bootstrap-only", 0.999),
        ("batch at acting only", "bn-act-only", 0.999),
    ),
    games=("minatar/breakout",),
    seeds=(0, 1, 2, 3, 4),
    total_decisions=100_000,
    record_every_decisions=4_096,
    evaluation=EvaluationSettings(every_decisions=100_000),
    reference="BN batch",
    metric="test",
    final_points=3,
)

QUICK = Study(
    name="quick",
    question="Study C's question at MinAtar size: does BatchNorm in PQN fail with running "
    "statistics that follow slowly, and do batch statistics for acting and bootstrapping "
    "recover it?",
    arms=_pqn_arms(
        ("running", "bn-running", 0.999),
        ("running", "bn-running", 0.99),
        ("batch at bootstrap only", "bn-bootstrap-only", 0.999),
        ("batch at acting only", "bn-act-only", 0.999),
    ),
    games=("minatar/breakout", "minatar/space_invaders"),
    seeds=(0, 1, 2),
    total_decisions=400_000,
    record_every_decisions=4_096,
    evaluation=EvaluationSettings(every_decisions=400_000),
    reference="BN batch",
    metric="test",
    final_points=3,
)

QUICK_C51 = Study(
    name="quick-c51",
    question="Study A's question at MinAtar size: do the bootstrap statistics of a BatchNorm C51 "
    "change its return within 40,000 decisions? (The paper's claim is about Atari.)",
    arms=(
        Arm("C51", "none"),
        Arm("LN", "ln"),
        Arm("BN running", "bn-running"),
        Arm("BN tracked 0.1", "bn-tracked", changes={"protocol.bootstrap.track": 0.1}),
        Arm("BN batch", "bn-batch"),
    ),
    games=("minatar/breakout", "minatar/space_invaders"),
    seeds=(0, 1, 2),
    total_decisions=40_000,
    record_every_decisions=1_000,
    evaluation=EvaluationSettings(every_decisions=4_000),
    reference="C51",
)

QUICK_ACTOR_CRITICS = Study(
    name="quick-actor-critics",
    question="Study F's agents at MinAtar size, and CrossQ's argument: does a BatchNorm critic "
    "need (s, a) and (s', a') in one batch, or will two batches, or running statistics, do?",
    arms=(
        Arm("XQC", "bn-joined", "xqc"),
        Arm("XQC separate", "bn-separate", "xqc"),
        Arm("XQC running", "bn-running", "xqc"),
        Arm("XQC no target", "xqc-no-target", "xqc"),
        Arm("CrossQ", "batchnorm", "crossq"),
        Arm("CrossQ renorm", "batchrenorm", "crossq"),
        Arm("MR.Q", "ln", "mrq", evaluation_epsilon=0.001),
        Arm("TD3", "none", "td3"),
    ),
    games=("minatar/breakout", "minatar/space_invaders"),
    seeds=(0, 1, 2),
    total_decisions=12_000,
    record_every_decisions=1_000,
    evaluation=EvaluationSettings(every_decisions=2_000, epsilon=0.0),
    reference="TD3",
)

STUDIES = (DEMO, QUICK, QUICK_C51, QUICK_ACTOR_CRITICS)
