"""Small drawings in SVG, made by hand: bars about a level, intervals, and curves in panels. They need no matplotlib."""

import math
from collections.abc import Sequence

import numpy as np

from tightrope.pages.elements import Html, text

BAR = (150, 16)  # pixels of a bar; by hand
PANEL = (250, 120)  # pixels of a curve, with the names of its axes around it; by hand


def bar(value: float, whole: float, broken: bool, error: float = math.nan, title: str = "") -> Html:
    """A constraint as a bar from its level, in the middle: to the left it is kept, to the right it is broken.

    Args:
        value: what is drawn; 0 is the level.
        whole: the value, positive, whose bar would be as long as there is room.
        broken: whether it counts as broken; a value above 0 by rounding does not.
        error: by how much the value may be off, drawn as a line; NaN for none.
        title: what to say of it to whoever cannot see it.
    """
    if not math.isfinite(value) or not whole > 0:
        return Html("")
    middle, unit = BAR[0] / 2, (BAR[0] / 2 - 2) / whole
    end = middle + unit * _within(value, whole)
    role = "broken" if broken else "kept"
    width = max(abs(end - middle), 2.0)  # a constraint that binds is to be seen, too
    parts = [f'<rect class="{role}" x="{middle - width * (value <= 0):.1f}" y="4" width="{width:.1f}" height="8"/>']
    if math.isfinite(error) and error > 0:
        low, high = (middle + unit * _within(value + side * error, whole) for side in (-1, 1))
        parts.append(f'<line class="level" x1="{low:.1f}" x2="{high:.1f}" y1="8" y2="8"/>')
    parts.append(f'<line class="level" x1="{middle}" x2="{middle}" y1="0" y2="{BAR[1]}"/>')
    return _svg(BAR[0], BAR[1], title, parts)


def interval(low: float, value: float, high: float, whole: float, mark: float = math.nan, role: str = "kept") -> Html:
    """A number as a dot on the line of its interval, from 0 to `whole`; `mark` is a dashed line to compare it with."""
    if not math.isfinite(value) or not whole > 0:
        return Html("")
    unit = (BAR[0] - 8) / whole
    left, dot, right = (4 + unit * min(max(number, 0.0), whole) for number in (low, value, high))
    parts = []
    if math.isfinite(mark):
        at = 4 + unit * min(max(mark, 0.0), whole)
        parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{BAR[1]}"/>')
    parts += [
        f'<line class="{role}" x1="{left:.1f}" x2="{right:.1f}" y1="8" y2="8" stroke-width="2"/>',
        f'<circle class="{role}" cx="{dot:.1f}" cy="8" r="3.5"/>',
    ]
    return _svg(BAR[0], BAR[1], f"{value:.3g}, {low:.3g} to {high:.3g}", parts)


def curve(
    x: Sequence[float] | np.ndarray,
    lines: Sequence[np.ndarray],
    name: str,
    along: str,
    *,
    level: float | None = None,
    logarithmic: bool = True,
    decades: bool = False,
    dot: tuple[float, float] | None = None,
) -> Html:
    """A panel with a curve or several, of which all but the first are dashed.

    Args:
        x: the abscissa.
        lines: the ordinates; what is not finite is left out.
        name: of the panel.
        along: what the abscissa is.
        level: a line across; what lies above it is shaded.
        logarithmic: whether the abscissa is, where it is positive.
        decades: whether the ordinate is logarithmic; what is not positive is left out.
        dot: a point to mark.
    """
    if decades:
        lines = [np.log10(np.where(np.asarray(line, float) > 0, line, np.nan)) for line in lines]
    x = np.asarray(x, float)
    lines = [np.asarray(line, float) for line in lines]
    known = [np.isfinite(line) & np.isfinite(x) & ((x > 0) | (not logarithmic)) for line in lines]
    if not any(mask.any() for mask in known):
        return Html("")
    seen_x = np.concatenate([x[mask] for mask in known] + [[dot[0]] if dot else []])
    seen_y = np.concatenate([line[mask] for line, mask in zip(lines, known, strict=True)])
    seen_y = np.concatenate([seen_y, [] if level is None else [level], [dot[1]] if dot else []])
    logarithmic = logarithmic and seen_x.max() > 10 * seen_x.min()
    wide, high = PANEL
    left, top, right, bottom = 4.0, 20.0, wide - 4.0, high - 16.0
    scale = np.log if logarithmic else np.asarray
    first, last = float(scale(seen_x.min())), float(scale(seen_x.max()))
    low, most = float(seen_y.min()), float(seen_y.max())

    def at(a, b) -> tuple[np.ndarray, np.ndarray]:
        return (
            left + (right - left) * (scale(a) - first) / (last - first or 1.0),
            bottom - (bottom - top) * (np.asarray(b) - low) / (most - low or 1.0),
        )

    parts = []
    if level is not None:
        height = float(at(seen_x.min(), level)[1])
        if most > level:
            parts.append(
                f'<rect class="beyond" x="{left}" y="{top}" width="{right - left}" height="{height - top:.1f}"/>'
            )
        parts.append(f'<line class="level" x1="{left}" x2="{right}" y1="{height:.1f}" y2="{height:.1f}"/>')
    for i, (line, mask) in enumerate(zip(lines, known, strict=True)):
        if mask.any():
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(*at(x[mask], line[mask]), strict=True))
            dashes = ' stroke-dasharray="4 3"' if i else ""
            parts.append(f'<polyline class="kept" points="{points}" stroke-width="1.6"{dashes}/>')
            if mask.sum() == 1:
                (a,), (b,) = at(x[mask], line[mask])
                parts.append(f'<circle class="kept" cx="{a:.1f}" cy="{b:.1f}" r="3"/>')
    if dot:
        a, b = at(*dot)
        parts.append(f'<circle class="broken" cx="{a:.1f}" cy="{b:.1f}" r="4"/>')
    parts.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    worst, best = (10**end if decades else end for end in (most, low))
    reach = f"{worst:.3g}" if worst == best else f"{best:.3g} to {worst:.3g}{', log' if decades else ''}"
    parts += [
        f'<text class="name" x="{left}" y="12">{text(_short(name))}</text>',
        f'<text x="{right}" y="12" text-anchor="end">{reach}</text>',
        f'<text x="{left}" y="{high - 3}">{_count(seen_x.min())}</text>',
        f'<text x="{wide / 2}" y="{high - 3}" text-anchor="middle">{text(along)}{", log" if logarithmic else ""}</text>',
        f'<text x="{right}" y="{high - 3}" text-anchor="end">{_count(seen_x.max())}</text>',
    ]
    return _svg(wide, high, f"{name} against {along}: {reach}", parts)


def _within(value: float, whole: float) -> float:
    return min(max(value, -whole), whole)


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _short(name: str, most: int = 22) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _svg(wide: float, high: float, title: str, parts: Sequence[str]) -> Html:
    named = f"<title>{text(title)}</title>" if title else ""
    return Html(
        f'<svg width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img">{named}{"".join(parts)}</svg>'
    )
