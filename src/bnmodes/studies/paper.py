"""The paper's studies, in full."""

from bnmodes.envs.atari import STICKY
from bnmodes.studies.spec import Arm, Study
from bnmodes.training.spec import EvaluationConfig

ATARI_26 = tuple(
    f"atari/{game}"
    for game in (
        "Alien", "Amidar", "Assault", "Asterix", "BankHeist", "BattleZone", "Boxing", "Breakout",
        "ChopperCommand", "CrazyClimber", "DemonAttack", "Freeway", "Frostbite", "Gopher", "Hero",
        "Jamesbond", "Kangaroo", "Krull", "KungFuMaster", "MsPacman", "Pong", "PrivateEye", "Qbert",
        "RoadRunner", "Seaquest", "UpNDown",
    )
)  # fmt: skip

UTDS = (0.25, 1.0, 2.0, 4.0, 8.0, 12.0)
ALPHAS = (0.001, 0.01, 0.1)


def _on_atari(name: str, question: str, arms: tuple[Arm, ...], reference: str) -> Study:
    """The budget that all of the paper's C51 studies share: 1.25M decisions = 5M frames."""
    return Study(
        name=name,
        question=question,
        arms=arms,
        games=ATARI_26,
        seeds=(0, 1, 2),
        total_decisions=1_250_000,
        record_every_decisions=10_000,
        evaluation=EvaluationConfig(),
        reference=reference,
    )


A = _on_atari(
    "paper-a",
    "Does the statistics source of the bootstrap forward decide whether BatchNorm helps or harms "
    "C51, and do stored moments help more the faster they follow the bootstrap batch?",
    (
        Arm("C51", "none"),
        Arm("LN", "ln"),
        Arm("BN running", "bn-running"),
        *(
            Arm(f"BN tracked {alpha:g}", "bn-tracked", weights={"tracking_alpha": alpha})
            for alpha in ALPHAS
        ),
        Arm("BN batch", "bn-batch"),
    ),
    reference="C51",
)

B = _on_atari(
    "paper-b",
    "How do C51's configurations respond to more updates per decision, with batch statistics at "
    "the bootstrap forward of the BatchNorm arms?",
    tuple(
        Arm(f"{label} UTD {utd:g}", base, changes={"updates_per_decision": utd})
        for utd in UTDS
        for label, base in (
            ("C51", "none"),
            ("LN", "ln"),
            ("BN", "bn-batch"),
            ("LN WN", "ln-wn"),
            ("BN WN", "bn-wn"),
        )
    ),
    reference="C51 UTD 0.25",
)

ONLINE_ALPHA = _on_atari(
    "paper-online-alpha",
    "The paper gives no weight for the stored moments of C51's online network. Does the result of "
    "study A depend on it?",
    (
        Arm("C51", "none"),
        *(
            Arm(f"{label} online α {alpha:g}", base, weights={"online_alpha": alpha})
            for alpha in ALPHAS
            for label, base in (("BN running", "bn-running"), ("BN batch", "bn-batch"))
        ),
    ),
    reference="C51",
)

F = Study(
    name="paper-f",
    question="Does BatchNorm with batch statistics over joined rows carry an actor-critic with a "
    "Gumbel-Softmax policy, beside a strong one with LayerNorm and a plain one?",
    arms=(
        Arm("XQC", "bn-joined", "xqc"),
        Arm("MR.Q", "ln", "mrq"),
        Arm("TD3", "none", "td3"),
    ),
    games=tuple(game + STICKY for game in ATARI_26),
    seeds=(0, 1, 2, 3, 4),
    total_decisions=1_250_000,
    record_every_decisions=10_000,
    evaluation=EvaluationConfig(every_decisions=50_000, epsilon=0.0),
    reference="TD3",
)

STUDIES = (A, B, ONLINE_ALPHA, F)
