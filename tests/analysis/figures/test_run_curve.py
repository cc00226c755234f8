"""`bnmodes plot`: the curves of single runs."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure

from bnmodes.analysis.figures.run_curve import learning_curve
from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder
from bnmodes.studies.quick import QUICK, QUICK_C51


def written(root, run, kinds=("evaluation",)):
    """A run whose returns rise to 1 + its seed."""
    folder = root / run.spec.content_hash
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"spec": run.spec.to_json()}))
    rows = []
    for kind in kinds:
        for decision in range(4_000, 40_001, 4_000 if kind != "test" else 1_000):
            value = (1 + run.seed) * decision / 40_000
            row = {"kind": kind, "decision": decision, "frame": decision, "return": value}
            rows.append(row | ({"returns": [value] * 2} if kind == "evaluation" else {}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RunFolder(folder)


@pytest.fixture
def drawn(monkeypatch):
    """The figures instead of their files."""
    figures = []

    def keep(figure, path, **_):
        path.touch()
        figures.append(figure)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def curves(figure):
    (axes,) = figure.axes
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def test_ten_runs_have_a_look_and_a_name_each_and_the_names_do_not_overlap(tmp_path, drawn):
    runs = [run for run in QUICK_C51.runs if run.game == "minatar/breakout"][:10]
    learning_curve([written(tmp_path, run) for run in runs], tmp_path / "x.png")
    (figure,) = drawn
    lines = curves(figure)
    assert set(lines) == {f"{run.spec.arm}, seed {run.seed}" for run in runs}
    assert len({line.get_color() for line in lines.values()}) == 10
    figure.draw_without_rendering()
    meanings, legend = figure.legends
    assert [text.get_text() for text in meanings.get_texts()] == ["evaluation games (mean)"]
    boxes = [text.get_window_extent() for text in legend.get_texts()]
    assert len(boxes) == 10
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
    ends = [lines[text.get_text()].get_ydata()[-1] for text in legend.get_texts()]
    assert ends == sorted(ends, reverse=True)


def test_a_curve_is_that_of_the_evaluations_or_of_more_frequent_test_games(tmp_path, drawn):
    run = QUICK.runs[0]
    learning_curve([written(tmp_path, run, ("evaluation", "test", "train"))], tmp_path / "x.png")
    (line,) = curves(drawn[0]).values()
    assert len(line.get_xdata()) == 37
    np.testing.assert_allclose(line.get_ydata()[-1], 1)
    assert drawn[0].axes[0].get_title("left") == "PQN ln, seed 0, on minatar/breakout"
    assert len(drawn[0].axes[0].collections) == 1, "a dot for each game of an evaluation"


@pytest.mark.parametrize(
    ("kinds", "meanings"),
    [
        (
            ("evaluation", "test", "train"),
            [
                "greedy test games (mean)",
                "games while training (mean)",
                "single evaluation games",
            ],
        ),
        (("evaluation",), ["evaluation games (mean)", "single evaluation games"]),
        (("train",), ["games while training (mean)"]),
    ],
)
def test_the_legend_of_one_run_says_what_is_drawn_and_no_more(tmp_path, drawn, kinds, meanings):
    learning_curve([written(tmp_path, QUICK.runs[0], kinds)], tmp_path / "x.png")
    (legend,) = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()] == meanings


def test_runs_of_several_agents_and_games_are_told_apart(tmp_path, drawn):
    runs = [written(tmp_path / str(i), run) for i, run in enumerate((QUICK.runs[0], QUICK.runs[3]))]
    runs.append(written(tmp_path / "c51", QUICK_C51.runs[0]))
    learning_curve(runs, tmp_path / "x.png")
    assert list(curves(drawn[0])) == [
        "ln, pqn, breakout, seed 0",
        "ln, pqn, space_invaders, seed 0",
        "none, c51, breakout, seed 0",
    ]


def test_a_run_without_metrics_is_a_clear_error(tmp_path):
    with pytest.raises(UsageError, match="has no metrics yet"):
        learning_curve([written(tmp_path, QUICK.runs[0], ())], tmp_path / "x.png")
