"""A study of your own: `bnmodes study run examples/own_study.py`, then `… study report …`."""

from bnmodes import Arm, Study

STUDY = Study(
    name="epsilon",
    question="Does PQN learn more, or less, with a larger epsilon in BatchNorm, or with LayerNorm?",
    arms=(
        Arm("BN batch", "bn-batch", "pqn"),
        Arm("BN batch (large epsilon)", "bn-batch", "pqn", changes={"norm.bn_epsilon": 1e-3}),
        Arm("LN", "ln", "pqn"),
    ),
    games=("minatar/breakout",),
    seeds=(0, 1, 2, 3, 4),
    total_decisions=100_000,
    reference="BN batch",
    metric="test",
    final_points=3,
)
