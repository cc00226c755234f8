"""A study of your own: `bnmodes study run examples/own_study.py`, then `… study report …`."""

from bnmodes import Arm, Study

STUDY = Study(
    name="mine",
    question="Does a larger epsilon help?",
    arms=(
        Arm("BN batch", "bn-batch"),
        Arm("BN running (large epsilon)", "bn-running", changes={"norm.bn_epsilon": 1e-3}),
        Arm("PQN batch", "bn-batch", agent="pqn"),
    ),
    games=("minatar/breakout",),
    seeds=(0, 1),
    total_decisions=10_000,
    reference="BN batch",
)
