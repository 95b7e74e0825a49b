"""HTML from text: the only file that knows the style of a page, and that escapes what it is given.

Whatever is not `Html` is text, and is escaped on its way into a page: a function cannot be given markup by mistake.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tightrope.files import as_path, replace_file
from tightrope.names import in_html


class Html(str):
    """Markup that a function of this file has made."""

    __slots__ = ()


_LIGHT = "--paper:#fff;--ink:#1b1f24;--faint:#5b6570;--line:#d4d9df;--kept:#0072b2;--broken:#c34700;--tint:#f4f6f8"
_DARK = "--paper:#14171b;--ink:#e4e7ea;--faint:#9aa4af;--line:#3a4149;--kept:#56b4e9;--broken:#ff8a4c;--tint:#1d2228"
STYLE = (
    # a notebook says by itself whether it is dark, whatever the system prefers
    f".tightrope{{{_LIGHT}}}"
    f"@media(prefers-color-scheme:dark){{body.tightrope{{{_DARK}}}}}"
    f'[data-jp-theme-light="false"] .tightrope,.vscode-dark .tightrope{{{_DARK}}}'
    f"@media print{{body.tightrope{{{_LIGHT}}}}}"
    ".tightrope{font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif;color:var(--ink)}"
    "body.tightrope{background:var(--paper);max-width:62rem;margin:0 auto;padding:1.5rem 1rem 4rem;overflow-wrap:break-word}"
    ".tightrope h1{font-size:1.6rem;line-height:1.25;margin:.2em 0 .6em}"
    ".tightrope h2{font-size:1.15rem;margin:2em 0 .5em;padding-bottom:.2em;border-bottom:1px solid var(--line)}"
    ".tightrope h3{font-size:1rem;margin:1.4em 0 .4em}"
    ".tightrope p,.tightrope ul{margin:.4em 0;max-width:46rem}"
    ".tightrope li{margin:.2em 0}"
    ".tightrope a{color:var(--kept)}"
    ".tightrope a:focus-visible,.tightrope .wide:focus-visible{outline:2px solid var(--kept);outline-offset:2px}"
    ".tightrope .faint{color:var(--faint)}"
    ".tightrope .said{border-left:4px solid var(--faint);background:var(--tint);padding:.5em .9em;margin:.6em 0;"
    "max-width:46rem}"
    ".tightrope .said.kept{border-color:var(--kept)}.tightrope .said.broken{border-color:var(--broken)}"
    ".tightrope b.kept{color:var(--kept)}.tightrope b.broken{color:var(--broken)}"
    ".tightrope .wide{overflow-x:auto;margin:.6em 0}"
    ".tightrope table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums;margin:0}"
    ".tightrope caption{text-align:left;font-weight:600;padding:.2em 0}"
    ".tightrope th,.tightrope td{padding:.25em .7em;text-align:right;white-space:nowrap;font-weight:normal;border:0;"
    "background:none;vertical-align:top}"
    ".tightrope thead th{border-bottom:1px solid var(--faint);color:var(--faint)}"
    ".tightrope tbody tr+tr{border-top:1px solid var(--line)}"
    ".tightrope th:first-child,.tightrope td:first-child,.tightrope .words{text-align:left}"
    ".tightrope .words{white-space:normal;min-width:11rem}"
    ".tightrope .left{text-align:left}"
    ".tightrope .drawn{text-align:center}.tightrope td svg{max-width:none;margin:.15em auto}"
    ".tightrope th.heading{padding-top:.8em;color:var(--faint)}"
    ".tightrope td.interval{color:var(--faint);padding-left:0}"
    ".tightrope dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1.2em;margin:.6em 0}"
    ".tightrope dt{color:var(--faint)}.tightrope dd{margin:0;min-width:0}"
    ".tightrope figure{margin:1em 0}.tightrope figcaption{color:var(--faint);font-size:13px;max-width:46rem}"
    ".tightrope img{max-width:100%;height:auto;background:#fff}"
    ".tightrope summary{cursor:pointer;color:var(--faint)}.tightrope details dd{font-size:13px}"
    ".tightrope pre{overflow-x:auto;background:var(--tint);padding:.6em .9em;font-size:13px}"
    ".tightrope .panels{display:flex;flex-wrap:wrap;gap:.8em 1.4em}"
    ".tightrope svg{display:block;max-width:100%;overflow:visible}"
    ".tightrope svg text{fill:var(--faint);font-size:11px}.tightrope svg text.name{fill:var(--ink);font-size:12px}"
    ".tightrope svg .axis{stroke:var(--faint)}.tightrope svg .level{stroke:var(--ink)}"
    ".tightrope svg .kept{stroke:var(--kept);fill:none}.tightrope svg .broken{stroke:var(--broken);fill:none}"
    ".tightrope svg rect.kept,.tightrope svg circle.kept{fill:var(--kept);stroke:none}"
    ".tightrope svg rect.broken,.tightrope svg circle.broken{fill:var(--broken);stroke:none}"
    ".tightrope svg .beyond{fill:var(--broken);opacity:.1;stroke:none}"
    ".tightrope svg .mark{stroke:var(--faint);stroke-dasharray:2 2}"
    "@media(max-width:480px){.tightrope dl{grid-template-columns:1fr;gap:0}.tightrope dd{margin-bottom:.5em}"
    ".tightrope th,.tightrope td{padding:.25em .4em}.tightrope .words{min-width:6rem}"
    ".tightrope .drawn,.tightrope td:has(>svg),.tightrope .aside{display:none}}"  # what stands elsewhere, too
    "@media print{.tightrope .wide{overflow:visible}.tightrope table,.tightrope figure,.tightrope svg{break-inside:avoid}"
    "body.tightrope{max-width:none;padding:0}}"
)
"""Light and dark, phone and paper. Classes have the names of what they mean: kept, broken, said, faint."""


def text(said: object) -> Html:
    """Text as HTML: whatever a user wrote, nothing of it is markup. What is `Html` already stays as it is.

    Example:
        >>> print(text("<b> & co"))
        &lt;b&gt; &amp; co
    """
    return said if isinstance(said, Html) else Html(in_html(said))


def joined(parts: Iterable[object]) -> Html:
    """Pieces, one after the other."""
    return Html("".join(map(text, parts)))


def element(tag: str, inside: object, role: str = "") -> Html:
    """A tag around text or markup; `role` is its class.

    Example:
        >>> print(element("td", "a < b", "words"))
        <td class="words">a &lt; b</td>
    """
    named = f' class="{role}"' if role else ""
    return Html(f"<{tag}{named}>{text(inside)}</{tag}>")


def paragraph(said: object, role: str = "") -> Html:
    """A paragraph."""
    return element("p", said, role)


def heading(said: object, level: int = 2, place: str = "") -> Html:
    """A heading; `place` is what links to it are called."""
    named = f' id="{text(place)}"' if place else ""
    return Html(f"<h{level}{named}>{text(said)}</h{level}>")


def listed(items: Iterable[object]) -> Html:
    """A list of sentences; nothing where there are none."""
    made = joined(element("li", item) for item in items)
    return element("ul", made) if made else made


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """Names and what there is to say of each."""
    return element(
        "dl", joined(element(tag, said) for pair in pairs for tag, said in zip(("dt", "dd"), pair, strict=True))
    )


def link(to: str, said: object) -> Html:
    """A link to a file beside the page, or to a place in it."""
    return Html(f'<a href="{text(to)}">{text(said)}</a>')


def cell(inside: object, role: str = "") -> Html:
    """A cell of a table."""
    return element("td", inside, role)


def row(cells: Iterable[Html]) -> Html:
    """A row of a table."""
    return element("tr", joined(cells))


def table(
    heads: Sequence[str],
    rows: Iterable[Html | Sequence[object]],
    caption: str = "",
    roles: Mapping[int, str] | None = None,
) -> Html:
    """A table that can be scrolled sideways, by finger and by keyboard, where a screen is narrower than it.

    Args:
        heads: the names of the columns.
        rows: what is in them, or rows made by `row` where cells have roles of their own.
        caption: what it shows.
        roles: the classes of columns by their number: "words" for text that may take several lines, "drawn" for drawings.
    """
    roles = roles or {}
    top = joined(element("th", head, roles.get(i, "")) for i, head in enumerate(heads))
    made = (
        each if isinstance(each, Html) else row(cell(inside, roles.get(i, "")) for i, inside in enumerate(each))
        for each in rows
    )
    named = element("caption", caption) if caption else ""
    inside = f"<table>{named}<thead><tr>{top}</tr></thead><tbody>{joined(made)}</tbody></table>"
    label = text(caption or f"table: {', '.join(head for head in heads if head)}")
    return Html(f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{inside}</div>')


def progress(done: float, total: float, said: object) -> Html:
    """How far something has come, for a notebook.

    Example:
        >>> print(progress(3, 4, "steps"))
        <div><progress value="3" max="4"></progress> 3 of 4 steps</div>
    """
    counts = f"{done:,.0f} of {total:,.0f}"
    return Html(f'<div><progress value="{done:.0f}" max="{total:.0f}"></progress> {counts} {text(said)}</div>')


def picture(file: str, caption: str) -> Html:
    """A picture that lies beside the page, and opens by itself where it is too small."""
    said, shown = text(caption), Html(f'<img src="{text(file)}" alt="{text(caption)}">')
    return Html(f"<figure>{link(file, shown)}<figcaption>{said}</figcaption></figure>")


def fragment(*parts: object) -> Html:
    """What a notebook shows: a piece of a page with its style."""
    return Html(f'<div class="tightrope"><style>{STYLE}</style>{joined(parts)}</div>')


def page(title: str, *parts: object) -> Html:
    """A whole page: one file, no outside font, script or picture."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>{STYLE}</style>"
    )
    body = f"<h1>{text(title)}</h1>{joined(parts)}"
    return Html(
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body class="tightrope"><main>{body}</main></body></html>\n'
    )


def write_page(path: str | Path, made: Html) -> Path:
    """Write a page, whole or not at all; gives its path."""
    path = as_path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"The report was to be written to {path}; expected a file in a folder that exists.")
    replace_file(path, made.encode())
    return path
