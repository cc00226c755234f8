"""The pages that are shown to readers, and the blocks of code on them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    title: str
    """The name under which the reader saves it; empty: nothing is saved."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str, page: str | None = None) -> list[Block]:
    """The fenced blocks in these languages, on one page or on all."""
    found = []
    for name, text in PAGES.items():
        for fence in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
            language, _, options = fence[1].partition(" ")
            title = re.fullmatch(r'title="(.*)"', options)
            line = text[: fence.start()].count("\n") + 1
            found.append(Block(name, line, language, title[1] if title else options, fence[2]))
    return [
        b for b in found if page in (None, b.page) and (not languages or b.language in languages)
    ]
