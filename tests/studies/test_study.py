import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from bnmodes.errors import UsageError
from bnmodes.runs.spec import spec_from_json
from bnmodes.studies import paper
from bnmodes.studies.registry import STUDIES, find_study
from bnmodes.studies.study import Arm, Contrast, Study
from helpers.small_study import small_study


def hashes(study):
    return {run.spec.content_hash for run in study.runs}


def test_study_a_is_seven_arms_on_26_games_with_three_seeds():
    assert len(paper.A.runs) == len(hashes(paper.A)) == 7 * 26 * 3
    assert [arm.name for arm in paper.A.arms] == [
        "C51", "LN", "BN running", "BN tracked 0.001", "BN tracked 0.01", "BN tracked 0.1",
        "BN batch",
    ]  # fmt: skip
    for run in paper.A.runs:
        assert run.spec.total_decisions == 1_250_000
        assert run.spec.settings.updates_per_decision == 0.25
    tracks = [arm.settings("atari/Pong").protocol.bootstrap.track for arm in paper.A.arms]
    assert tracks == [None, None, None, 0.001, 0.01, 0.1, None]


def test_study_b_is_five_arms_at_six_utds_and_shares_with_a_what_is_the_same():
    assert len(paper.B.runs) == len(hashes(paper.B)) == 5 * 6 * 26 * 3
    assert len(hashes(paper.A) & hashes(paper.B)) == 3 * 26 * 3
    for run in paper.B.runs:
        projected = run.spec.settings.projection.granularity == "neuron"
        assert projected == ("WN" in run.arm)
        assert (run.spec.settings.learning_rate_schedule == "linear") == projected
        if run.spec.settings.norm.kind == "bn":
            assert run.spec.settings.protocol.bootstrap.statistics == "batch"


def test_the_sensitivity_study_varies_what_the_paper_leaves_open():
    found = {arm.name: arm.settings("atari/Pong") for arm in paper.C51_SENSITIVITY.arms}
    weights = {
        (arm.base, protocol.predict.update, protocol.bootstrap.track)
        for arm in paper.C51_SENSITIVITY.arms
        if arm.base.startswith("bn-") and (protocol := found[arm.name].protocol)
    }
    assert weights == {
        *((b, a, None) for b in ("bn-running", "bn-batch") for a in (0.001, 0.01, 0.1)),
        *(("bn-tracked", a, a) for a in (0.001, 0.01, 0.1)),
    }
    norms = {(s.norm.ln_epsilon, s.norm.ln_axes) for s in found.values() if s.norm.kind == "ln"}
    assert norms == {(e, axes) for e in (1e-6, 1e-5) for axes in ("channels", "all")}
    assert len(hashes(paper.C51_SENSITIVITY)) == 14 * 26 * 3
    shared = hashes(paper.C51_SENSITIVITY) & hashes(paper.A)
    assert len(shared) == 5 * 26 * 3, "C51, LN, and the arms at online α 0.01 run once for both"


def test_study_c_crosses_the_roles_with_the_momenta_and_the_sources_of_next_values():
    assert len(paper.C.runs) == len(hashes(paper.C)) == (1 + 2 * (3 * 4 + 1) - 4) * 5
    found = set()
    for run in paper.C.runs:
        settings = run.spec.settings
        assert (run.spec.total_decisions, run.spec.evaluation.test_bins) == (10_000_000, 30)
        assert settings.head == "scalar"
        if settings.norm.kind == "bn":
            roles = (settings.protocol.act.statistics, settings.protocol.bootstrap.statistics)
            found.add((*roles, round(1 - settings.protocol.predict.update, 9)))
    combinations = {("running", "running"), ("running", "batch"), ("batch", "running")}
    expected = {(*roles, m) for roles in combinations for m in (0, 0.9, 0.99, 0.999)}
    assert found == expected | {("batch", "batch", 0.9)}
    by_source = [run.spec.settings.bootstrap_source for run in paper.C.runs]
    assert by_source.count("acting-cache") == 9 * 5
    cached = {arm.base for arm in paper.C.arms if "bootstrap_source" in arm.changes}
    assert "bn-running" not in cached, "kept values are the recomputed ones there, bit for bit"
    assert (paper.C.metric, paper.C.final_points) == ("test", 3)


def test_study_d_is_five_arms_on_26_games_with_ten_seeds():
    assert len(paper.D.runs) == len(hashes(paper.D)) == 5 * 26 * 10
    settings = {arm.name: arm.settings("atari/Pong") for arm in paper.D.arms}
    assert {name: s.head for name, s in settings.items()} == {
        "LN": "scalar", "BN running": "scalar", "BN batch": "scalar",
        "LN HL-Gauss": "hl-gauss", "BN batch HL-Gauss": "hl-gauss",
    }  # fmt: skip
    released = settings["BN running"].protocol
    assert (released.act.statistics, released.bootstrap.statistics) == ("running", "running")
    assert released.predict.update == 0.01
    for run in paper.D.runs[::97]:
        assert (run.spec.total_decisions, run.spec.evaluation.test_bins) == (100_000_000, 60)
    assert (paper.D.metric, paper.D.final_points) == ("test", 1)


def test_the_quick_study_is_study_c_at_minatar_size():
    study = find_study("quick")
    assert [arm.name for arm in study.arms] == [
        "LN", "BN running 0.999", "BN running 0.99", "BN batch at bootstrap only 0.999",
        "BN batch at acting only 0.999", "BN batch",
    ]  # fmt: skip
    assert study.games == ("minatar/breakout", "minatar/space_invaders")
    assert (len(study.seeds), study.total_decisions) == (3, 400_000)
    assert {run.spec.settings.bootstrap_source for run in study.runs} == {"recompute"}


def test_quick_studies_declare_the_contrasts_that_their_questions_ask_for():
    def declared(name):
        contrasts = find_study(name).contrasts
        assert all(each.claim for each in contrasts)
        return {(each.arm, each.other) for each in contrasts}

    one_role = {"BN batch at bootstrap only 0.999", "BN batch at acting only 0.999"}
    others = {"LN", "BN running 0.999", *one_role}
    roles = ("BN batch at acting only 0.999", "BN batch at bootstrap only 0.999")
    assert declared("demo") == {("BN batch", other) for other in others} | {roles}
    assert declared("quick") == declared("demo") | {("BN batch", "BN running 0.99")}
    assert declared("quick-c51") == {
        *(("BN batch", other) for other in ("BN running", "LN", "C51")),
        ("BN running", "C51"),
        ("BN tracked 0.1", "BN running"),
    }
    assert declared("quick-actor-critics") == {
        *(("XQC", other) for other in ("XQC separate", "XQC running", "TD3")),
        ("XQC no target", "XQC"),
        ("CrossQ", "TD3"),
        ("MR.Q", "TD3"),
        ("CrossQ renorm", "CrossQ"),
    }


def test_study_f_is_three_actor_critics_on_26_sticky_games_with_five_seeds():
    assert len(paper.F.runs) == len(hashes(paper.F)) == 3 * 26 * 5
    assert {run.spec.agent for run in paper.F.runs} == {"xqc", "mrq", "td3"}
    assert all(run.game.endswith("-sticky") for run in paper.F.runs)
    grid = paper.F.evaluation.grid(paper.F.total_decisions)
    assert (grid[0], grid[-1], len(grid)) == (50_000, 1_250_000, 25)
    for run in paper.F.runs:
        as_released = (run.spec.evaluation.epsilon, run.spec.settings.evaluate_sampled)
        assert as_released == ((0.001, True) if run.arm == "MR.Q" else (0.0, False))
    longer = STUDIES["paper-f-2.5m"]
    assert (longer.total_decisions, len(longer.runs)) == (2_500_000, len(paper.F.runs))
    assert "1.28, 1.09 and 0.25 at 2.5M" in paper.F.note
    plain = replace(paper.F.runs[0].spec, env="atari/Alien")
    assert plain.content_hash not in hashes(paper.F), "the setting is in the hash"


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_of_the_package_is_valid_and_its_specs_survive_a_file(name):
    study = STUDIES[name]
    assert study.reference in [arm.name for arm in study.arms]
    assert len({arm.name for arm in study.arms}) == len(study.arms)
    for run in study.runs[:: max(1, len(study.runs) // 40)]:
        run.spec.validate()
        again = spec_from_json(json.loads(json.dumps(run.spec.to_json())))
        assert again.content_hash == run.spec.content_hash


def test_a_hash_is_the_same_in_another_process():
    code = "from bnmodes.studies.paper import A; print(A.runs[0].spec.content_hash)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert other.stdout.strip() == paper.A.runs[0].spec.content_hash


def test_hashes_stay_what_they_were():
    """Another hash would orphan every finished run of the study: change it only on purpose."""
    hashes = {name: study.runs[0].spec.content_hash for name, study in STUDIES.items()}
    assert hashes == {
        "demo": "38ad9240fb25",
        "quick": "12935be8cce5",
        "quick-c51": "59534c115e43",
        "quick-actor-critics": "09278740b2fe",
        "why-pqn": "d75a13b657d7",
        "screen-c51": "c8a8efa8b55c",
        "why-c51": "983ba9f39cc0",
        "why-c51-paper": "892a1bd616e5",
        "slow-c51": "fb9de02a6ef8",
        "why-c51-small": "08a90af414cb",
        "pong-short": "66c92aedad7c",
        "small-a": "77fa84537059",
        "small-a-short": "c4c6abba5e8e",
        "paper-a": "753f864ea6fc",
        "paper-b": "753f864ea6fc",
        "paper-c51-sensitivity": "753f864ea6fc",
        "paper-c": "383da8fedb17",
        "paper-d": "bbf76b5af98c",
        "paper-e-c51": "54656b482bb9",
        "paper-e-pqn": "bbf76b5af98c",
        "paper-f": "562a9dd0ad6d",
        "paper-f-2.5m": "00d8140991f3",
    }


def test_a_setting_added_later_renames_no_run_and_old_files_are_read():
    spec = paper.A.runs[0].spec
    data = spec.to_json()
    del data["evaluation"]["test_bins"]
    del data["settings"]["calibrate_target"]
    again = spec_from_json(data)
    assert again == spec
    assert again.content_hash == spec.content_hash
    changed = replace(spec, settings=replace(spec.settings, calibrate_target=True))
    assert changed.content_hash != spec.content_hash


def test_a_part_of_a_study_has_the_same_runs():
    part = paper.A.restricted(arms=["bn BATCH"], games=["atari/pong"], seeds=[2])
    (run,) = part.runs
    assert str(run) == "BN batch on atari/Pong, seed 2"
    assert run in paper.A.runs


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"arms": ["BN bathc"]}, r"no arm 'BN bathc' \(did you mean 'BN batch'\?\)"),
        ({"games": ["minatar/breakuot"]}, "minatar/breakout"),
        ({"seeds": [7]}, "no seed '7'"),
    ],
)
def test_unknown_parts_are_refused(choice, words):
    with pytest.raises(UsageError, match=words):
        small_study().restricted(**choice)


def test_an_unknown_study_is_refused():
    with pytest.raises(UsageError, match="did you mean 'quick-c51'"):
        find_study("quick-c15")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"games": ("minatar/breakout", "MinAtar/Breakout")}, "twice"),
        ({"name": ".."}, "file's name"),
        ({"arms": ()}, "has no arms"),
        ({"reference": "LN"}, "no arm of study"),
        ({"contrasts": (Contrast("C51", "LN"),)}, "contrast with 'LN'"),
        ({"contrasts": (Contrast("C51", "C51"),)}, "compare two arms, once"),
        ({"metric": "test"}, "has none: use metric='evaluation'"),
        ({"final_points": 0}, "give a number from 1 to that"),
        ({"final_points": 1_000}, "give a number from 1 to that"),
        ({"arms": (Arm("C51", "none", changes={"bacth_size": 3}),)}, "'batch_size'"),
    ],
)
def test_a_study_that_cannot_be_run_is_refused(changes, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        replace(small_study(), **changes).validate()


def test_a_forgotten_comma_is_told():
    study = small_study()
    object.__setattr__(study, "games", "minatar/breakout")  # as a file without type checks would
    with pytest.raises(UsageError, match="games of study small must be a tuple"):
        study.validate()


@pytest.mark.parametrize(("name", "word"), [("metric", "tests"), ("diverged", "drop")])
def test_an_unknown_word_is_told(name, word):
    study = small_study()
    object.__setattr__(study, name, word)  # as a file without type checks would
    with pytest.raises(UsageError, match=f"{name} of study small is '{word}': choose one of"):
        study.validate()


@pytest.mark.parametrize("pair", [("LN", "BN batch"), ("BN batch", "LN")])
def test_a_contrast_is_declared_once_in_either_order(pair):
    study = replace(STUDIES["quick"], contrasts=(Contrast("BN batch", "LN"), Contrast(*pair)))
    with pytest.raises(UsageError, match="twice"):
        study.validate()


def test_a_part_of_a_study_says_what_it_is_a_part_of():
    part = STUDIES["quick"].restricted(arms=["LN", "BN batch"], seeds=[0])
    assert part.part_words() == "A part of the study: 2 of 6 arms, 1 of 3 seeds."
    assert part.restricted(arms=["LN"]).whole == STUDIES["quick"]
    assert STUDIES["quick"].restricted().part_words() == ""
    assert all(study.part_of is None for study in STUDIES.values())


def test_what_a_study_does_not_say_has_a_default():
    study = Study("s", "?", (Arm("a", "none"),), ("probe/chain",), (0,), total_decisions=10_005)
    study.validate()
    assert len(study.evaluation.grid(10_005)) == 10
    assert (study.reference, study.metric, study.record_every_decisions) == ("a", "evaluation", 100)


def test_a_study_whose_runs_end_before_learning_starts_says_so():
    study = Study("s", "?", (Arm("a", "none"),), ("minatar/breakout",), (0,), total_decisions=900)
    assert "a: learning starts at decision 5,000" in study.warnings()[0]
