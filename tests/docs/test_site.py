"""The pages as a site: every link leads somewhere, every public name is described, and a page asks
no other server for anything."""

import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

import bnmodes
from bnmodes.cli import COMMANDS
from docs.pages import PAGES, ROOT


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_repositorys_own_pages_lead_somewhere(page):
    """Those between pages of docs are checked by the build."""
    text = (ROOT / page).read_text()
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if link.startswith("https://"):
            continue
        target = ROOT / (link or page)
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), f"{link}#{anchor}"


def anchors(text: str) -> set[str]:
    """Of headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_public_name_is_in_the_reference():
    described = re.findall(r"^::: bnmodes\..*\.(\w+)$", PAGES["docs/reference/api.md"], re.M)
    assert set(bnmodes.__all__) <= set(described)


def test_every_command_is_in_the_reference():
    page = PAGES["docs/reference/commands.md"]
    assert not [name for name in COMMANDS if f"| `bnmodes {name}" not in page]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)  # in strict mode it aborts at the first warning
    return folder


def test_the_site_builds_without_a_warning_and_asks_no_other_server(site):
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]
    assert len(pages) == len([page for page in PAGES if page.startswith("docs/")])
    for page in pages:
        html = page.read_text()
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?([^\s\">]+)", html)
        assert loaded
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page
    api = (site / "reference" / "api.html").read_text()
    for name in ("forward_mode", "audit", "Study", "BatchNorm"):
        assert name in api
