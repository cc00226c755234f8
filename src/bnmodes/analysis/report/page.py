"""Pieces of a self-contained HTML page: no script, no font, no file beside it is needed."""

import base64
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from bnmodes.analysis.statistics import Interval

_CSS = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #5c6570; --ground: #fdfdfb;
  --card: #f4f4f0; --rule: #dcdcd4; --accent: #0b63a5; --warn: #a4001d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6e8; --soft: #a0a8b0; --ground: #16181b;
  --card: #202327; --rule: #363b41; --accent: #7cbcf0; --warn: #ff8a94; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem clamp(1rem, 4vw, 3rem) 5rem;
  background: var(--ground); color: var(--ink); overflow-wrap: break-word;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 1rem 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; margin: 3rem 0 .6rem; padding-top: .8rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .4rem; }
p, li { max-width: 46rem; }
a { color: var(--accent); text-underline-offset: .15em; }
nav { font-size: .9rem; color: var(--soft); margin: 1rem 0; }
nav a { margin-right: 1rem; white-space: nowrap; display: inline-block; }
.question { font-size: 1.15rem; color: var(--soft); }
.headline { font-size: 1.15rem; font-weight: 600; }
.note { font-size: .9rem; color: var(--soft); }
.warn { color: var(--warn); font-weight: 600; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(12.5rem, 1fr)); gap: .6rem;
  margin: 1.2rem 0; }
dl.facts div { background: var(--card); border-radius: .5rem; padding: .55rem .8rem; }
dl.facts dt { font-size: .78rem; color: var(--soft); }
dl.facts dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
.summary { background: var(--card); border-radius: .6rem; padding: .4rem 1.2rem; }
.summary ul { padding-left: 1.1rem; }
.wide { overflow-x: auto; margin: .6rem 0 1rem; -webkit-overflow-scrolling: touch;
  background: linear-gradient(var(--ground) 0 0) 0 0/1rem 100% no-repeat local,
    linear-gradient(var(--ground) 0 0) 100% 0/1rem 100% no-repeat local,
    linear-gradient(90deg, var(--rule), transparent) 0 0/.7rem 100% no-repeat scroll,
    linear-gradient(270deg, var(--rule), transparent) 100% 0/.7rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { padding: .32rem .8rem .32rem 0; text-align: left; vertical-align: baseline;
  border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { font-weight: 600; } thead th { color: var(--soft); font-weight: 500; white-space: normal;
  vertical-align: bottom; }
td.n, th.n { text-align: right; padding-left: .6rem; }
td small { color: var(--soft); }
tfoot td, tfoot th { border-bottom: 0; color: var(--soft); }
.dot { display: inline-block; width: .65em; height: .65em; border-radius: 50%;
  margin-right: .45em; }
figure { margin: 1.4rem 0 2.2rem; }
figure .sheet { display: block; background: #fff; border: 1px solid var(--rule);
  border-radius: .5rem; padding: .6rem; }
figure img { display: block; width: 100%; height: auto; margin: 0 auto; }
figcaption { font-size: .9rem; color: var(--soft); margin-top: .5rem; max-width: 46rem; }
@media (max-width: 600px) {
  figure.large .sheet { overflow-x: auto; }
  figure.large img { width: calc(62px * var(--inches)); }
  figure.large figcaption::before { content: "Swipe the picture to see all of it. "; }
}
details { margin: .5rem 0; } summary { cursor: pointer; font-weight: 600; }
code { font-size: .88em; }
th a { color: inherit; text-decoration-color: var(--rule); }
dl.words dt { font-weight: 600; margin-top: .6rem; } dl.words dd { margin: 0; max-width: 46rem; }
svg.dots { width: 100%; max-width: 44rem; height: auto; display: block; font-size: 15px; }
svg.dots text { fill: var(--ink); } svg.dots .axis { stroke: var(--rule); }
svg.dots a:hover circle, svg.dots a:focus circle { stroke: var(--ink); stroke-width: 2; }
"""


_PHONE_INCHES = 6.0
_NUMERIC = ' class="n"'  # right-aligned, in a cell and in the header above it


def page(title: str, body: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Says that there is no icon, so that no browser asks a server for one.
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def section(anchor: str, title: str, *content: str) -> str:
    return (
        f'<section id="{anchor}">\n<h2>{escape(title)}</h2>\n' + "\n".join(content) + "</section>"
    )


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def bullets(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def folded(title: str, *content: str, is_open: bool = False) -> str:
    shown = " open" if is_open else ""
    inner = "\n".join(content)
    return f"<details{shown}><summary>{escape(title)}</summary>\n{inner}</details>"


def facts(items: dict[str, str]) -> str:
    boxes = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in items.items()
    )
    return f'<dl class="facts">{boxes}</dl>'


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, footer: Sequence[str] = ()
) -> str:
    """Rows are cells that are HTML already. It scrolls in its own box where a screen is narrow."""
    head = "".join(
        f'<th scope="col"{_NUMERIC if _NUMERIC in below else ""}>{escape(name)}</th>'
        for name, below in zip(header, rows[0], strict=True)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>\n" for row in rows)
    foot = f"<tfoot><tr>{''.join(footer)}</tr></tfoot>" if footer else ""
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody>{foot}</table></div>"
    )


def row_name(text: str, colour: str = "", link: str = "") -> str:
    dot = f'<span class="dot" style="background:{colour}"></span>' if colour else ""
    shown = f'<a href="{escape(link)}">{escape(text)}</a>' if link else escape(text)
    return f'<th scope="row">{dot}{shown}</th>'


def text_cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def number_cell(key: str, value: float | int, text: str | None = None) -> str:
    """`key` names the number for a program; `data-point` has all its digits."""
    shown = number(value) if text is None else text
    return f'<td class="n" data-key="{escape(key)}" data-point="{value!r}">{escape(shown)}</td>'


def interval_cell(
    key: str, interval: Interval, ending: str = "", *, has_interval: bool = True
) -> str:
    """One seed has no interval, but the point itself as its bounds."""
    shown = f"{number(interval.point)}{ending}"
    known = has_interval and np.isfinite([interval.low, interval.high]).all()
    bounds = f"[{number(interval.low)}, {number(interval.high)}]" if known else "[–]"
    return (
        f'<td class="n" data-key="{escape(key)}" data-point="{interval.point!r}" '
        f'data-low="{interval.low!r}" data-high="{interval.high!r}">{shown} '
        f"<small>{bounds}</small></td>"
    )


def number(value: float) -> str:
    """Three digits that matter, with a real minus sign."""
    if not np.isfinite(value):
        return "–"
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{value:,.{digits}f}".replace("-", "−")


def picture(
    name: str, png: bytes, inches: float, caption: str, link: str, narrow: bytes | None = None
) -> str:
    """It fits any screen; a tap opens the file itself, which can be enlarged. On a phone a wide one
    that has no narrow form is swiped sideways: its text would be too small otherwise."""
    kind = ' class="large"' if narrow is None and inches > _PHONE_INCHES else ""
    source = f'<source media="(max-width: 600px)" srcset="{_data(narrow)}">' if narrow else ""
    size = f"max-width:{round(110 * inches)}px; --inches:{inches:g}"
    image = f'<img alt="{escape(caption)}" style="{size}" src="{_data(png)}">'
    return (
        f'<figure id="figure-{escape(name)}"{kind}><a class="sheet" href="{escape(link)}" '
        f'title="open the picture alone"><picture>{source}{image}</picture></a>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def definitions(words: dict[str, str]) -> str:
    items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in words.items())
    return f'<dl class="words">{items}</dl>'
