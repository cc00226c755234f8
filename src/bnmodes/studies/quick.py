"""Studies that fit a laptop."""

from bnmodes.runs.spec import EvaluationSettings
from bnmodes.studies.study import Arm, Contrast, Study

CHOSEN_LATER = "The contrasts were declared after the published runs of this study had been seen."


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


def _pqn_contrasts(*momenta: float) -> tuple[Contrast, ...]:
    """BN batch against running statistics at each momentum and against the arms at 0.999 that read
    them in one role; those two against each other; and BN batch against LN."""
    at_bootstrap, at_acting = (f"BN batch at {role} only 0.999" for role in ("bootstrap", "acting"))
    return (
        *(
            Contrast(
                "BN batch",
                f"BN running {momentum:g}",
                f"Batch statistics beat running ones at momentum {momentum:g}.",
            )
            for momentum in momenta
        ),
        Contrast("BN batch", at_bootstrap, "Acting: batch statistics beat running ones there."),
        Contrast("BN batch", at_acting, "Bootstrap: batch statistics beat running ones there."),
        Contrast(at_acting, at_bootstrap, "Acting is the more sensitive role."),
        Contrast("BN batch", "LN", "With batch statistics BatchNorm beats LayerNorm."),
    )


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
    note=CHOSEN_LATER,
    contrasts=_pqn_contrasts(0.999),
)

QUICK = Study(
    name="quick",
    question="paper-c's question at MinAtar size: does BatchNorm in PQN fail with running "
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
    note=CHOSEN_LATER,
    contrasts=_pqn_contrasts(0.999, 0.99),
)

QUICK_C51 = Study(
    name="quick-c51",
    question="paper-a's question at MinAtar size: do the bootstrap statistics of a BatchNorm C51 "
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
    note=CHOSEN_LATER,
    contrasts=(
        Contrast("BN batch", "BN running", "Batch statistics at the bootstrap beat running ones."),
        Contrast("BN batch", "LN", "With batch statistics BatchNorm beats LayerNorm."),
        Contrast("BN running", "C51", "Running statistics at the bootstrap harm C51."),
        Contrast("BN batch", "C51", "Batch statistics at the bootstrap help C51."),
        Contrast("BN tracked 0.1", "BN running", "Tracking recovers a part."),
    ),
)

QUICK_ACTOR_CRITICS = Study(
    name="quick-actor-critics",
    question="paper-f's agents at MinAtar size, and CrossQ's argument: does a BatchNorm critic "
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
    contrasts=(
        Contrast("XQC", "XQC separate", "One batch of both populations beats one of each."),
        Contrast("XQC", "XQC running", "Batch statistics at the bootstrap beat running ones."),
        Contrast("XQC no target", "XQC", "XQC is better without a target network."),
        Contrast("CrossQ", "TD3", "BatchNorm without a target network beats TD3."),
        Contrast("XQC", "TD3", "XQC beats TD3."),
        Contrast("MR.Q", "TD3", "MR.Q beats TD3."),
        Contrast("CrossQ renorm", "CrossQ", "BatchRenorm is better than BatchNorm."),
    ),
)

STUDIES = (DEMO, QUICK, QUICK_C51, QUICK_ACTOR_CRITICS)
