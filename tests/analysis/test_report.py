"""The report in a real browser: pictures load, nothing is fetched, numbers are the statistics'."""

import importlib.util
import math
import os
import re
import shutil
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pytest

from bnmodes.analysis.arms import utd_of
from bnmodes.analysis.captions import percent_words
from bnmodes.analysis.comparable import comparable
from bnmodes.analysis.findings import headline, summary
from bnmodes.analysis.report.report import write_report
from bnmodes.analysis.report.summary_table import summary_table
from bnmodes.analysis.resampling import bootstrap, paired_difference, probability_of_improvement
from bnmodes.analysis.scores import auc, collect, final
from bnmodes.analysis.statistics import AGGREGATES, iqm, percent_of_reference
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.errors import UsageError
from bnmodes.networks.torsos import torso_description
from bnmodes.studies import paper
from bnmodes.studies.quick import QUICK_ACTOR_CRITICS
from bnmodes.studies.results import run_path
from bnmodes.studies.study import Contrast
from helpers.synthetic import (
    STUDY_A,
    STUDY_B,
    minatar_study,
    normalised,
    synthetic_results,
    with_bootstrap_diagnostics,
    with_diagnostics,
)

RESAMPLES = 100
MEASURES = {"auc": auc, "final": final}
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
)


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or not importlib.util.find_spec("playwright"):
        message = "the report cannot be opened: install chromium, and playwright from [dev]."
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    root = tmp_path_factory.mktemp("small study")
    results = synthetic_results(
        minatar_study(), root=root, is_missing=lambda run: run.arm == "LN" and run.seed == 1
    )
    path = root / "report" / "index.html"
    write_report(StudyNumbers(results, allow_missing=True, resamples=RESAMPLES), path)
    return results, path


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Games and seeds of the paper, at two UTDs of its six; all arms are compared with C51."""
    arms = [arm.name for arm in STUDY_B.arms if utd_of(arm) in (0.25, 8)]
    results = synthetic_results(replace(STUDY_B.restricted(arms=arms), contrasts=(), part_of=None))
    path = tmp_path_factory.mktemp("large") / "report.html"
    write_report(StudyNumbers(results, resamples=RESAMPLES, table="mnih2015"), path)
    return results, path


@pytest.fixture(params=["small", "large"])
def report(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def open_page(browser):
    """Opens a file, and writes down what the browser complains about and asks for."""
    contexts = []

    def open_file(path, width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.complaints, page.requested = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requested.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()


def cells(page) -> dict[str, dict]:
    found = page.eval_on_selector_all(
        "[data-key]", "all => all.map(one => [one.dataset, one.textContent])"
    )
    return {data["key"]: data | {"text": text} for data, text in found}


def assert_shows(cell, interval):
    stored = [float(cell[name]) for name in ("point", "low", "high")]
    np.testing.assert_array_equal(stored, [interval.point, interval.low, interval.high])
    text = cell["text"].replace("−", "-").replace(",", "").replace("%", "")
    shown = [float(number) for number in re.findall(r"-?[\d.]+", text)]
    known = [value for value in stored if not math.isnan(value)]
    np.testing.assert_allclose(shown, known, rtol=6e-3, atol=6e-4)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_is_one_file_that_a_browser_shows_whole(report, open_page, width, scheme):
    results, path = report
    page = open_page(path, width, scheme)
    widths = page.eval_on_selector_all("img", "all => all.map(one => one.naturalWidth)")
    assert len(widths) == (4 if results.study.name == "small" else 6)
    assert min(widths) > 600
    assert page.complaints == []
    assert [url for url in page.requested if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert (
        page.eval_on_selector_all("script, iframe, link[rel=stylesheet]", "all => all.length") == 0
    )


def test_wide_tables_scroll_in_their_own_box(large, open_page):
    page = open_page(large[1], width=390)
    inner, outer = page.eval_on_selector(
        "#aggregates .wide", "box => [box.scrollWidth, box.clientWidth]"
    )
    assert inner > outer
    assert outer <= 390


def test_numbers_on_the_page_are_the_statistics(report, open_page):
    results, path = report
    shown = cells(open_page(path))
    table = "mnih2015" if results.study.name != "small" else "wang2016"
    scores = {
        arm.name: normalised(comparable(results), arm.name, table=table, allow_missing=True)
        for arm in results.study.arms
    }
    seen = 0
    for name, measure in MEASURES.items():
        whole = float(iqm(measure(scores[results.study.reference])))
        for arm in results.study.arms:
            values = measure(scores[arm.name])
            for aggregate, statistic in AGGREGATES.items():
                expected = bootstrap(values, statistic, resamples=RESAMPLES)
                assert_shows(shown[f"{name}|{aggregate}|{arm.name}"], expected)
            percent = percent_of_reference(bootstrap(values, resamples=RESAMPLES), whole)
            assert_shows(shown[f"{name}|percent|{arm.name}"], percent)
            seen += len(AGGREGATES) + 1
            returns = measure(collect(results, arm.name, allow_missing=True))
            for game, of_game in zip(scores[arm.name].games, returns, strict=True):
                stored = float(shown[f"{name}|{game}|{arm.name}"]["point"])
                assert stored == pytest.approx(np.nanmean(of_game))
                seen += 1
            utd = f" UTD {utd_of(arm):g}" if results.study.name != "small" else ""
            if arm.name == f"C51{utd}":
                continue
            other, pair = measure(scores[f"C51{utd}"]), f"{arm.name}|C51{utd}"
            difference = paired_difference(values, other, resamples=RESAMPLES)
            improvement = probability_of_improvement(values, other, resamples=RESAMPLES)
            assert_shows(shown[f"{name}|difference|{pair}"], difference)
            assert_shows(shown[f"{name}|improvement|{pair}"], improvement)
            others = measure(collect(results, f"C51{utd}"))
            won = np.nanmean(returns, -1) > np.nanmean(others, -1)
            assert int(shown[f"{name}|wins|{arm.name}"]["point"]) == won.sum()
            assert 0 < float(shown[f"{name}|p|{pair}"]["point"]) <= 1
            seen += 4
    assert seen == len(shown)


def test_every_number_of_a_page_has_a_name_of_its_own(tmp_path):
    study = minatar_study(("breakout",))
    pairs = (Contrast("BN batch", "LN", ""), Contrast("BN batch", "C51", ""))
    numbers = StudyNumbers(synthetic_results(replace(study, contrasts=pairs)), resamples=20)
    keys = re.findall('data-key="(.*?)"', write_report(numbers, tmp_path / "r.html").read_text())
    assert "auc|difference|BN batch|LN" in keys
    assert len(keys) == len(set(keys))


def test_it_says_what_was_asked_what_ran_and_what_is_missing(small, open_page):
    results, path = small
    page = open_page(path)
    text = page.inner_text("body")
    assert results.study.question in text  # with its < and & unharmed
    assert "28 of 30 declared runs are finished" in text
    assert "LN on minatar/breakout, seed 1" in text
    assert "score in units of the AUC of C51" in text
    assert "human" not in text.rpartition("Words\n")[0], "but in the glossary"
    tracked = page.locator("#protocols h3", has_text="BN tracked").locator("xpath=following::tr[3]")
    assert tracked.inner_text().split("\t")[3:5] == ["running", "α 0.01 (Flax 0.99)"]


def test_the_human_table_is_named(large, open_page):
    text = open_page(large[1]).inner_text("#aggregates")
    assert "human-normalised score (mnih2015)" in text
    assert "the human of the table mnih2015" in text


def test_settings_come_from_the_configuration_that_ran(large, open_page):
    page = open_page(large[1])
    settings = page.eval_on_selector_all(
        "[data-setting]",
        "all => all.map(one => [one.dataset.setting + '|' + one.dataset.arm, one.textContent])",
    )
    settings = dict(settings)
    assert settings["replay capacity|every arm"] == "1,000,000"
    assert settings["adam epsilon|every arm"] == "0.0003125"
    assert settings["v min|every arm"] == "−10"
    assert settings["optimizer|every arm"] == "Adam, β (0.9, 0.999)"
    assert settings["initialisation|every arm"] == "Kaiming normal (gain √2); biases 0"
    assert settings["activation|every arm"] == "ReLU"
    assert settings["seeds per game|every arm"] == "3 (over 26 games)"
    assert settings["hidden layers|every arm"] == (torso_description("nature", (4, 84, 84)))
    assert settings["learning rate schedule|BN WN UTD 8"] == "linear"
    assert settings["updates per decision|BN WN UTD 8"] == "8"
    assert settings["norm: kind|LN UTD 0.25"] == "ln"


@pytest.mark.parametrize(
    "study", [QUICK_ACTOR_CRITICS, paper.F.restricted(seeds=[0, 1])], ids=lambda study: study.name
)
def test_a_study_of_several_agents_has_a_page_with_the_settings_of_each(study, tmp_path):
    results = synthetic_results(study, level=lambda arm: 0.5)
    page = tmp_path / "report.html"
    write_report(StudyNumbers(results, resamples=20), page)
    text = page.read_text()
    units = "128" if study is QUICK_ACTOR_CRITICS else "512"
    assert f'data-setting="critic units" data-arm="XQC">{units}<' in text
    assert 'data-setting="critic units" data-arm="TD3"><' in text, "it has none"
    assert 'data-setting="gamma" data-arm="every arm">0.99<' in text


def test_links_lead_to_the_runs_relative_to_the_page(small, open_page):
    results, path = small
    links = open_page(path).eval_on_selector_all(
        "#runs a", "all => all.map(one => one.getAttribute('href'))"
    )
    folders = [run_path(results.root, run) for run in results.study.runs]
    missing = [run_path(results.root, run) for run in results.missing]
    wanted = {folder.resolve() for folder in folders} - {folder.resolve() for folder in missing}
    leads_to = {(path.parent / unquote(link)).resolve() for link in links}
    assert leads_to == wanted | {folder / "metrics.jsonl" for folder in wanted}


def test_the_same_finding_at_several_utds_is_said_once(large):
    numbers = StudyNumbers(large[0], resamples=RESAMPLES)
    sentences = summary(numbers)
    assert "At UTD 0.25 and 8, by AUC: LN, BN, LN WN and BN WN are above C51." in sentences
    assert any(sentence.startswith("The highest point estimate of AUC") for sentence in sentences)


def test_the_page_begins_with_one_sentence_with_numbers_and_the_bar_chart(small, open_page):
    page = open_page(small[1])
    order = page.eval_on_selector_all(
        "h1, .headline, figure, section", "all => all.map(one => one.id || one.className || 'h1')"
    )
    assert order[:6] == ["h1", "headline", "figure-bars", "summary", "contrasts", "figures"]
    said = page.inner_text(".headline")
    numbers = StudyNumbers(small[0], allow_missing=True, resamples=RESAMPLES)
    assert said == headline(numbers)
    for arm in numbers.arms[1:]:
        assert f"{arm.name} {numbers.relative(arm, 'auc').point:.0f}%" in said
    below = page.eval_on_selector("#figure-bars img", "one => one.getBoundingClientRect().bottom")
    assert below < 844, "on the first screen"


def test_the_bar_chart_of_a_phone_is_another_picture(small, open_page):
    shown = {
        width: open_page(small[1], width).eval_on_selector(
            "#figure-bars img", "one => [one.currentSrc.length, one.naturalWidth / one.clientWidth]"
        )
        for width in (1280, 390)
    }
    assert shown[1280][0] != shown[390][0]
    assert shown[390][1] < 2.5, "its letters are not shrunk away"


def test_wide_pictures_are_swiped_on_a_phone_with_letters_that_can_be_read(large, open_page):
    page = open_page(large[1], 390)
    shrunk = page.eval_on_selector_all(
        "figure img", "all => all.map(one => one.naturalWidth / one.clientWidth)"
    )
    assert max(shrunk) < 2.5
    boxes = page.eval_on_selector_all("figure .sheet", "all => all.map(one => one.clientWidth)")
    assert max(boxes) <= 390


def test_every_run_is_a_dot_that_tells_its_numbers_and_leads_to_its_folder(small, open_page):
    results, path = small
    dots = open_page(path).eval_on_selector_all(
        "#dots a", "all => all.map(one => [one.getAttribute('href'), one.textContent])"
    )
    done = [run for run in results.study.runs if run not in results.missing]
    assert len(dots) == len(done) == 28
    by_folder = {(path.parent / unquote(link)).resolve(): said for link, said in dots}
    run = done[7]
    scores = collect(results, run.arm, allow_missing=True)
    values = scores.only([run.game]).values[0, run.seed]
    said = by_folder[run_path(results.root, run).resolve()]
    assert said.startswith(f"{run.arm}, seed {run.seed}: AUC ")
    shown = [float(number) for number in re.findall(r"(?:AUC|Final) ([\d.]+)", said)]
    np.testing.assert_allclose(shown, [values.mean(), values[-1]], rtol=6e-3)


def test_words_are_explained_and_arms_lead_to_their_protocols(small, open_page):
    page = open_page(small[1])
    words = page.inner_text("#words")
    for word in ("AUC", "IQM", "HNS", "Running statistics", "Batch statistics", "Tracked"):
        assert word in words
    links = page.eval_on_selector_all(
        "#contrasts th a", "all => all.map(one => one.getAttribute('href'))"
    )
    assert len(links) == 8
    assert all(page.locator(link).count() == 1 for link in links)


def test_only_the_asked_formats_are_written(tmp_path):
    numbers = StudyNumbers(synthetic_results(minatar_study(("breakout",))), resamples=20)
    write_report(numbers, tmp_path / "r.html", ["svg"])
    endings = {path.suffix for path in (tmp_path / "r-figures").iterdir()}
    assert endings == {".png", ".svg"}, "the page links to its PNGs"


def test_figures_of_an_earlier_report_do_not_stay_beside_a_new_one(tmp_path):
    numbers = StudyNumbers(synthetic_results(minatar_study(("breakout",))), resamples=20)
    write_report(numbers, tmp_path / "r.html", ["svg"])
    folder = tmp_path / "r-figures"
    (folder / "momentum.png").touch()
    (folder / "notes.txt").touch()
    write_report(numbers, tmp_path / "r.html")
    found = {path.name for path in folder.iterdir()}
    assert found == {"bars.png", "curves.png", "per-game.png", "aggregates.png", "notes.txt"}


def test_the_interval_is_named_and_can_be_the_plain_one(tmp_path):
    results = synthetic_results(minatar_study(("breakout",)))
    pages = {}
    for kind in ("stretched", "percentile"):
        numbers = StudyNumbers(results, resamples=50, interval=kind)
        pages[kind] = write_report(numbers, tmp_path / f"{kind}.html").read_text()
    captions = re.findall("<figcaption>(.*?)</figcaption>", pages["stretched"])
    with_intervals = [caption for caption in captions if "95% intervals" in caption]
    assert len(with_intervals) >= 3
    assert all("(stretched)" in caption for caption in with_intervals)
    assert "(plain percentile)" in pages["percentile"]
    assert "(stretched)" not in pages["percentile"]


def test_a_line_says_that_intervals_of_percentages_are_no_test(small, tmp_path):
    said = "hold the IQM of C51 fixed and are not a test; only the contrasts judge"
    numbers = StudyNumbers(small[0], allow_missing=True, resamples=RESAMPLES)
    assert said in small[1].read_text()
    assert said in summary_table(numbers).caption
    alone = StudyNumbers(synthetic_results(minatar_study(bases=("none",))), resamples=20)
    assert percent_words(alone) == ""


def test_one_seed_is_not_said_to_have_intervals_or_errors(tmp_path):
    study = minatar_study(seeds=(7,))
    results = with_bootstrap_diagnostics(with_diagnostics(synthetic_results(study)))
    numbers = StudyNumbers(results, resamples=20)
    text = write_report(numbers, tmp_path / "r.html").read_text()
    captions = re.findall("<figcaption>(.*?)</figcaption>", text)
    captions += [summary_table(numbers).caption, numbers.interval_words]
    assert len(captions) >= 6
    for words in captions:
        assert not re.search("95%|standard error|resampled|[Bb]ands|[Bb]oxes|Bars with", words)
    assert sum("ne seed has no intervals" in words for words in captions) >= 4


def test_without_its_reference_an_atari_study_is_reported_but_not_compared(tmp_path):
    study = replace(
        STUDY_B.restricted(arms=["LN UTD 1", "BN UTD 1"], games=["atari/Pong", "atari/Alien"]),
        name="without reference",
        contrasts=(),
    )
    numbers = StudyNumbers(synthetic_results(study), resamples=RESAMPLES)
    path = write_report(numbers, tmp_path / "r.html")
    text = path.read_text()
    assert "The reference arm C51 UTD 0.25 has no run here, so no arm is compared with it." in text
    assert "There is no arm to compare with." in text
    assert "|percent|" not in text


def test_missing_runs_are_an_error_unless_allowed(tmp_path):
    results = synthetic_results(minatar_study(), is_missing=lambda run: run.seed == 2)
    with pytest.raises(UsageError, match="--allow-missing"):
        write_report(StudyNumbers(results), tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_the_terminal_gets_a_row_for_each_arm_with_returns_and_intervals():
    numbers = StudyNumbers(synthetic_results(minatar_study()), resamples=RESAMPLES)
    table = summary_table(numbers)
    columns = [list(column.cells) for column in table.columns]
    assert columns[0] == [arm.name for arm in numbers.arms]
    for place, arm in enumerate(numbers.arms):
        raw = numbers.raw(arm)
        assert columns[2][place] == f"{auc(raw)[1].mean():.1f} / {final(raw)[1].mean():.1f}"
        interval = numbers.relative(arm, "final")
        expected = f"{interval.point:.0f} [{interval.low:.0f}, {interval.high:.0f}]"
        assert columns[4][place] == expected
    many = StudyNumbers(synthetic_results(STUDY_A), resamples=RESAMPLES)
    assert len(summary_table(many).columns) == 3, "26 games have no columns of their own"


def test_one_seed_has_no_intervals_and_no_p_value(tmp_path, open_page):
    study = minatar_study(seeds=[0])
    numbers = StudyNumbers(synthetic_results(study), resamples=20)
    write_report(numbers, tmp_path / "report.html", ["png"])
    shown = cells(open_page(tmp_path / "report.html"))
    arm = next(name.partition("|p|")[2] for name in shown if name.startswith("auc|p|"))
    assert shown[f"auc|p|{arm}"]["text"] == "–"
    assert shown[f"auc|difference|{arm}"]["text"].endswith("[–]")
    assert shown["auc|IQM|C51"]["text"].endswith("[–]")
