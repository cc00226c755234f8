"""Every number of ours about the paper's claims is computed again from the published results."""

import re

import pytest

from bnmodes.analysis.wording import written
from docs import claims
from docs.pages import PAGES, ROOT

AGAIN = "`python tests/docs/claims.py` writes it"


def test_the_page_of_claims_has_the_numbers_of_the_published_results():
    assert PAGES["docs/claims.md"] == claims.claims_page(), AGAIN


def test_the_readme_has_the_table_of_claims():
    assert PAGES["README.md"] == claims.with_table(PAGES["README.md"]), AGAIN
    assert PAGES["README.md"].count(claims.BEGIN) == 1


@pytest.mark.parametrize("study", claims.studies())
def test_each_page_of_results_has_the_numbers_of_its_data(study):
    """Tables word by word; of sentences, whose words may change, the numbers in their order."""
    page, computed = PAGES[f"docs/results/{study}/README.md"], claims.result_page(study)
    for pattern in (r"^\|.*$", r"\d[\d.,]*"):
        assert re.findall(pattern, page, re.M) == re.findall(pattern, computed, re.M), AGAIN


@pytest.mark.parametrize("study", claims.studies())
def test_a_page_says_that_its_percentages_are_no_test_or_that_one_seed_has_no_intervals(study):
    computed = claims.result_page(study)
    several = claims.seed_count(study) > 1
    assert ("fixed and are not a test; only the contrasts judge" in computed) == several
    assert ("one seed has no intervals" in computed) != several


@pytest.mark.parametrize("study", claims.studies())
def test_published_results_are_small_and_their_figures_are_shown(study):
    folder = ROOT / "docs" / "results" / study
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 1e6
    shown = re.findall(r"\]\((figures/.*?)\)", PAGES[f"docs/results/{study}/README.md"])
    assert {folder / name for name in shown} == set((folder / "figures").iterdir())
    assert claims.published(study).about["folder"] == f"docs/results/{study}"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_picture_is_of_the_published_demo(page):
    first = re.search(r"!\[[^\]]*\]\(([^)]*)\)", PAGES[page])[1]
    assert first.endswith("results/demo/figures/bars.png")
    numbers = claims.numbers_of("demo")
    running = next(arm for arm in numbers.arms if arm.name == "BN running 0.999")
    found = written(numbers.relative(running, "auc"))
    assert found.replace(" [", "% [") in " ".join(PAGES[page].split())
