"""What a report says of planted studies, and that it is true of each of them."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from bnmodes.analysis.contrasts import ABOVE, BELOW, UNDECIDED, UNJUDGED
from bnmodes.analysis.findings import headline, summary
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.errors import UsageError
from bnmodes.studies.registry import STUDIES
from bnmodes.studies.study import Contrast
from helpers.synthetic import STUDY_B, _rows, minatar_study, synthetic_results

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
RESAMPLES = 200


def planted(by_arm, seeds=3, missing=(), diverged="worst", **options):
    """Returns of games × seeds for each arm, the same at all times; C51 is the reference."""
    bases = {"C51": "none", "LN": "ln", "BN batch": "bn-batch", "BN running": "bn-running"}
    by_arm = {name: np.asarray(values, dtype=float) for name, values in by_arm.items()}
    games = len(next(iter(by_arm.values())))
    study = minatar_study(GAMES[:games], range(seeds), [bases[name] for name in by_arm])
    study = replace(study, diverged=diverged)
    gone = [run for run in study.runs if (run.arm, run.game, run.seed) in missing]
    runs = [run for run in study.runs if run not in gone]
    values = [by_arm[run.arm][study.games.index(run.game), run.seed] for run in runs]
    grid = np.array(study.grid)
    frame = _rows(study, runs, "evaluation/return", grid, np.outer(values, np.ones(len(grid))))
    empty = synthetic_results(study)
    results = replace(empty, table=frame.lazy(), missing=tuple(gone))
    options = {"resamples": RESAMPLES, "allow_missing": bool(missing)} | options
    return StudyNumbers(results, **options)


def near(*levels, seeds=3, seed=0, spread=0.02):
    """Games × seeds near these levels."""
    noise = np.random.default_rng(seed).normal(size=(len(levels), seeds))
    return np.array(levels)[:, None] * (1 + spread * noise)


def verdicts(numbers, measure="auc"):
    return {one.arm.name: one.verdict for one in numbers.contrasts if one.measure == measure}


def said(numbers):
    return " ".join(summary(numbers))


def test_the_summary_says_what_the_data_show_whichever_way_they_fall():
    levels = {"C51": 3.0, "LN": 9.0, "BN running": 1.0, "BN batch": 3.01}
    numbers = planted({name: near(*[x] * 5, seed=i) for i, (name, x) in enumerate(levels.items())})
    assert verdicts(numbers) == {"LN": ABOVE, "BN running": BELOW, "BN batch": UNDECIDED}
    by_auc = summary(numbers)[0]
    assert by_auc.startswith("By AUC: LN (+2.0")
    assert "is above C51; BN running (−0.67 [−0.6" in by_auc
    assert by_auc.endswith("no difference from C51 is shown for BN batch at this size.")
    turned = planted({name: near(*[9 / x] * 5) for name, x in levels.items()})
    assert verdicts(turned)["LN"] == BELOW
    assert verdicts(turned)["BN running"] == ABOVE
    alike = planted({name: near(*[3.0] * 5, seed=i) for i, name in enumerate(levels)})
    assert summary(alike)[0] == "By AUC: no difference from C51 is shown for any arm at this size."


def test_the_headline_has_the_numbers_of_the_bars():
    numbers = planted({"C51": near(1, 1, 1, 1, 1), "LN": near(2, 2, 2, 2, 2, seed=1)})
    interval = numbers.relative(numbers.arms[1], "auc")
    assert headline(numbers) == (
        f"AUC IQM, in percent of C51: LN {interval.point:.0f}% "
        f"[{interval.low:.0f}, {interval.high:.0f}] (above)."
    )
    alone = planted({"C51": near(1, 1)})
    assert headline(alone) == "There is one arm only: C51."


def test_the_headline_has_every_arm_whichever_contrasts_are_declared():
    levels = {"C51": 1, "LN": 2, "BN running": 4, "BN batch": 8}
    arms = {name: near(*[x] * 5, seed=x) for name, x in levels.items()}
    contrasts = [("C51", "LN"), ("BN batch", "BN running")]
    found = headline(planted(arms, contrasts=contrasts))
    parts = found.removeprefix("AUC IQM, in percent of C51: ").split("; ")
    assert [part.split("%")[0][:-3] for part in parts] == ["LN ", "BN running ", "BN batch "]
    judged = [part.partition("] ")[2] for part in parts]
    assert judged == ["(above)", "", ""], "LN is above C51 where C51 − LN is below 0"


def test_the_headline_is_of_the_smallest_utd_that_has_more_than_the_reference():
    study = STUDY_B.restricted(
        arms=["C51 UTD 0.25", "BN UTD 8"], games=["atari/Pong", "atari/Alien"]
    )
    found = headline(StudyNumbers(synthetic_results(study), resamples=20))
    assert re.fullmatch(r"AUC IQM at UTD 8, in percent of C51 UTD 0.25: BN \d+% \[.*\]\.", found)


def test_contrasts_are_by_default_those_that_the_study_declares():
    declared = (Contrast("BN batch", "LN", "Better."),)
    results = synthetic_results(replace(minatar_study(), contrasts=declared))
    numbers = StudyNumbers(results, resamples=20)
    assert {(one.arm.name, one.other.name) for one in numbers.contrasts} == {("BN batch", "LN")}


def test_a_difference_of_rounding_is_no_difference():
    runs = near(1.1, 0.7, 2.3, 1.9, 0.3)
    numbers = planted({"C51": runs, "LN": runs * (1 + 4e-16)})
    assert set(verdicts(numbers).values()) == {UNDECIDED}
    assert all(one.improvement.point == 0.5 and one.games_ahead == 0 for one in numbers.contrasts)


def test_a_game_with_fewer_seeds_is_named_and_does_not_hide_the_others():
    missing = [("LN", "minatar/freeway", seed) for seed in (1, 2)]
    arms = {"C51": near(1, 1, 1, 1, 1), "LN": near(3, 3, 3, 3, 3, seed=1)}
    numbers = planted(arms, missing=missing)
    assert verdicts(numbers) == {"LN": ABOVE}
    assert "This rests on 5 games and 3 seeds, fewer on some (minatar/freeway: 1)." in said(numbers)


def test_a_lead_that_one_game_carries_is_called_so():
    """Worse on two of three games, much better on one."""
    ours = near(0.9, 0.9, 60.0, seeds=6, seed=1, spread=0.001)
    numbers = planted({"C51": near(1, 1, 1, seeds=6, spread=0.001), "LN": ours}, seeds=6)
    assert verdicts(numbers) == {"LN": ABOVE}
    for one in numbers.contrasts:
        assert one.contradicted
        assert one.carried_by == "minatar/freeway"
        assert one.without_it < 0 < one.difference.point
    assert (
        "LN's higher AUC is not general: on 1 of 3 games its mean is above, its runs win with "
        "probability 0.33, and without minatar/freeway the difference is −0.1." in said(numbers)
    )
    general = planted({"C51": near(1, 1, 1, seeds=6), "LN": near(2, 2, 2, seeds=6)}, seeds=6)
    assert "not general" not in said(general)


def test_above_is_qualified_where_runs_win_no_more_often_than_they_lose():
    """Ten times on one game, half on the other: the IQM is above, the runs win half of the time."""
    numbers = planted(
        {"C51": near(1, 1, seeds=6, spread=0.01), "LN": near(10, 0.5, seeds=6, seed=1)}, seeds=6
    )
    one = numbers.contrasts[0]
    assert one.verdict == ABOVE
    assert one.improvement.point == 0.5
    doubts = [s for s in summary(numbers) if "is not general" in s]
    assert len(doubts) == 2, "by AUC and by final score"
    assert "on 1 of 2 games its mean is above, its runs win with probability 0.50" in doubts[0]
    assert "without minatar/asterix the difference is −0.5" in doubts[0]


def test_what_is_shown_comes_first_and_many_undecided_contrasts_are_counted():
    levels = {"C51": 1.0, "LN": 1.0, "BN running": 1.0, "BN batch": 3.0}
    arms = {name: near(*[x] * 5, seed=i) for i, (name, x) in enumerate(levels.items())}
    pairs = [("LN", "C51"), ("BN running", "LN"), ("C51", "BN running"), ("BN batch", "LN")]
    first = summary(planted(arms, contrasts=pairs))[0]
    assert first.startswith("By AUC: BN batch (+1.99 [")
    assert first.endswith("is above LN; no difference is shown in 3 other contrasts at this size.")
    fewer = summary(planted(arms, contrasts=pairs[:2]))[0]
    assert fewer == (
        "By AUC: no difference from C51 is shown for LN at this size; no difference from LN is "
        "shown for BN running at this size."
    )


def test_a_reference_near_0_on_a_game_is_flagged():
    numbers = planted({"C51": near(0.02, 1.0, 1.0), "LN": near(3.0, 1.1, 1.1)})
    text = said(numbers)
    assert "On minatar/asterix the reference C51 is near 0 (mean return 0.0" in text
    assert "another arm 3.0" in text or "another arm 2.9" in text
    assert "--reference" in text
    calm = planted({"C51": near(1.0, 1.0, 1.0), "LN": near(3.0, 1.1, 1.1)})
    assert "near 0" not in said(calm)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_run_that_diverged_is_named_and_counts_as_the_worst(value):
    ours = near(2, 2, 2, 2, 2, seed=1)
    ours[1, 2] = value
    numbers = planted({"C51": near(1, 1, 1, 1, 1), "LN": ours})
    assert numbers.diverged == [("LN", "minatar/breakout", 2)]
    assert "1 run diverged (LN on minatar/breakout, seed 2)" in said(numbers)
    worst = numbers.raw(numbers.arms[0]).values[1].min()
    assert (numbers.raw(numbers.arms[1]).values[1, 2] == worst).all()
    for one in numbers.contrasts:
        assert np.isfinite([one.difference.low, one.difference.high, one.p]).all()


def test_a_study_may_leave_diverged_runs_out_or_refuse_them():
    ours = near(2, 2, 2, 2, 2, seed=1)
    ours[1, 2] = np.nan
    arms = {"C51": near(1, 1, 1, 1, 1), "LN": ours}
    left_out = planted(arms, diverged="left-out")
    assert left_out.diverged == [("LN", "minatar/breakout", 2)]
    assert "1 run diverged (LN on minatar/breakout, seed 2): they are left out" in said(left_out)
    for arm in left_out.arms:
        gone = np.isnan(left_out.values(arm, "auc"))
        assert np.argwhere(gone).tolist() == [[1, 2]], "the same seed of both arms"
    with pytest.raises(UsageError, match="runs diverged \\(LN on minatar/breakout, seed 2\\)"):
        planted(arms, diverged="refused")


def test_games_where_the_reference_is_not_above_0_are_left_out_and_named():
    reference = near(1, 1, 1)
    reference[1] = [0.0, 0.0, 0.0]
    numbers = planted({"C51": reference, "LN": near(2, 5, 2, seed=1)})
    ln = numbers.arms[1]
    assert numbers.scores(ln).games == ("minatar/asterix", "minatar/freeway")
    assert numbers.raw(ln).games == tuple(f"minatar/{game}" for game in GAMES[:3])
    assert numbers.relative(ln, "auc").point == pytest.approx(200, rel=0.05)
    text = said(numbers)
    assert "C51 is not above 0 on minatar/breakout" in text
    assert "This rests on 2 games and 3 seeds" in text
    assert numbers.missing_note(numbers.utds) == ("without minatar/breakout: reference not above 0")


def test_another_reference_can_be_chosen():
    arms = {"C51": np.zeros((2, 3)), "LN": near(2, 5), "BN batch": near(4, 10, seed=1)}
    with pytest.raises(UsageError, match=r"above 0 on no game.*--reference \(for example 'LN'\)"):
        planted(arms)
    numbers = planted(arms, reference="ln")
    assert numbers.reference.name == "LN"
    assert {one.other.name for one in numbers.contrasts} == {"LN"}
    assert numbers.relative(numbers.arms[2], "auc").point == pytest.approx(200, rel=0.05)
    with pytest.raises(UsageError, match="no arm 'nobody'"):
        planted(arms, reference="nobody")


def test_one_game_with_a_reference_at_0_is_compared_by_raw_returns():
    numbers = planted({"C51": -near(1, seeds=5), "LN": near(2, seeds=5)}, seeds=5)
    assert numbers.unit == "raw return"
    assert verdicts(numbers) == {"LN": ABOVE}
    assert headline(numbers).startswith("AUC IQM, raw return: LN 2.0")


def test_so_few_runs_that_nothing_could_be_shown_are_not_judged():
    numbers = planted({"C51": near(1, seeds=3), "LN": near(9, seeds=3)})
    assert set(verdicts(numbers).values()) == {UNJUDGED}
    assert summary(numbers)[0] == (
        "No test is possible with 1 game and 3 seeds: so few runs could never show a difference. "
        "The numbers are directions."
    )
    assert not any(word in said(numbers) for word in ("By AUC", "permutation"))
    many_games = planted(
        {"C51": near(*[1] * 5, seeds=2), "LN": near(*[9] * 5, seeds=2, seed=1)}, seeds=2
    )
    assert verdicts(many_games) == {"LN": ABOVE}, "7,776 deals"


def test_declared_contrasts_replace_those_with_the_reference():
    arms = {"C51": near(1, 1, 1, 1, 1), "LN": near(2, 2, 2, 2, 2), "BN batch": near(*[4.0] * 5)}
    numbers = planted(arms, contrasts=[("BN batch", "LN"), ("BN batch", "gone")])
    pairs = [(one.arm.name, one.other.name, one.verdict) for one in numbers.contrasts]
    assert pairs == [("BN batch", "LN", ABOVE)] * 2
    assert "is above LN." in summary(numbers)[0]
    assert "Holm's correction for 2 contrasts)" in said(numbers), "those without runs count too"


def test_a_part_of_a_study_is_corrected_for_all_that_the_whole_compares():
    whole = STUDIES["quick"]
    part = whole.restricted(arms=["BN batch", "LN"])
    numbers = [
        StudyNumbers(synthetic_results(study, level=lambda arm: 0.5), resamples=20)
        for study in (replace(part, part_of=None), part)
    ]
    alone, of_six = ([one.p for one in each.contrasts] for each in numbers)
    np.testing.assert_allclose(of_six, np.minimum(1, 6 * np.array(alone)))
    assert "Holm's correction for 6 contrasts" in said(numbers[1])


def test_a_part_without_a_declared_contrast_compares_nothing():
    study = STUDIES["quick-c51"].restricted(arms=["C51", "LN"])
    assert StudyNumbers(synthetic_results(study), resamples=20).contrasts == []


def test_no_difference_is_said_of_the_arms_that_were_compared():
    arms = {"C51": near(*[1.0] * 3), "LN": near(*[1.0] * 3, seed=1), "BN batch": near(*[1.0] * 3)}
    numbers = planted(arms, contrasts=[("LN", "C51")])
    assert "no difference from C51 is shown for LN at this size" in said(numbers)


def test_more_contrasts_need_more_evidence():
    """p is corrected for their number: four times as many, four times as large."""
    arms = {"C51": near(*[1.0] * 3), "LN": near(*[1.03] * 3, seed=1)}
    more = arms | {"BN batch": near(*[1.0] * 3, seed=2), "BN running": near(*[1.0] * 3, seed=3)}
    alone, among = planted(arms).contrasts[0], planted(more).contrasts[0]
    assert alone.arm.name == among.arm.name == "LN"
    assert among.p == pytest.approx(min(1, 3 * alone.p))


def test_numbers_are_computed_once(monkeypatch):
    import bnmodes.analysis.study_numbers as module

    numbers = planted({"C51": near(1, 1), "LN": near(2, 2)})
    calls = []
    for name in ("bootstrap", "curve", "judge"):
        plain = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, _of=plain, _name=name, **k: calls.append(_name) or _of(*a, **k)
        )
    for _ in range(3):
        for arm in numbers.arms:
            numbers.interval(arm, "auc")
            numbers.curve(arm)
        summary(numbers)
    assert sorted(calls) == ["bootstrap", "bootstrap", "curve", "curve", "judge"]


def test_frames_are_those_of_the_rows():
    numbers = planted({"C51": near(1, 1)})
    assert numbers.frames_per_decision == 1
    table = numbers.results.table.with_columns(frame=pl.col("decision") * 4)
    four = StudyNumbers(replace(numbers.results, table=table), resamples=20)
    assert four.frames_per_decision == 4
    mixed = table.with_columns(
        frame=pl.when(pl.col("game") == "minatar/asterix")
        .then(pl.col("decision"))
        .otherwise(pl.col("frame"))
    )
    assert StudyNumbers(replace(numbers.results, table=mixed)).frames_per_decision == 1
