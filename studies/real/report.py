"""Lines, counts and the page docs/real.md, from what was measured."""

import math
from collections import Counter
from typing import Any

from studies.page import markdown
from studies.real.truth import NO_ROOM, VIOLATED

RIGHT = 1e-4  # the largest true relative gap of an answer that counts: the bar, and the tolerance of `Status.SOLVED`
SHARE = 0.95  # of problems that have to be solved: the bar
QUICK, SLOW = 3.0, 10.0  # times the faster of cvxpy and SLSQP that a second call may take on 80 %, and on all: the bars
MOST = 0.8  # that share
INSTANT = 0.005  # CPU seconds: a peer that is faster counts as this, the clock's and the machine's own noise; a guess

Found = dict[str, Any]


def solved(found: Found) -> bool:
    """Whether the run says SOLVED, and is right to: a small true gap, no violation, no false claim."""
    return found["status"] == "SOLVED" and right(found) and not found["false"]


def right(found: Found) -> bool:
    """Whether the point is good, whatever the run says of it."""
    return found["status"] != "BROKEN" and abs(found["gap"]) <= RIGHT and not found["violated"]


def peer(found: Found) -> tuple[str, float] | None:
    """The faster of the peers whose answer is right, and its CPU seconds on a second call; None where none is."""
    times = {n: found[f"{n} second"] for n in ("cvxpy", "slsqp") if found.get(f"{n} right") and f"{n} second" in found}
    return min(times.items(), key=lambda pair: pair[1]) if times else None


def ratio(found: Found) -> float | None:
    """A second call of `minimize`, in second calls of the faster peer."""
    best = peer(found)
    return None if best is None or "second" not in found else found["second"] / max(best[1], INSTANT)


def strict_ratio(found: Found) -> float | None:
    """The same beside cvxpy's time for an object that it has solved already, where data cannot be new."""
    times = [best[1] for best in [peer(found)] if best is not None]
    times += [found["cvxpy again"]] if found.get("cvxpy right") else []
    return found["second"] / max(min(times), INSTANT) if times and "second" in found else None


def claims(found: list[Found]) -> list[tuple[str, str, bool]]:
    """What has to hold: the claim, what was found, whether it holds."""
    out = []
    for storage in ("float64", "float32"):
        part = [f for f in found if f["storage"] == storage]
        if part:
            good, false = sum(map(solved, part)), sum(bool(f.get("false")) for f in part)
            text = f"rows in {storage}: SOLVED, true relative gap at most {RIGHT:g}, no violation, on {SHARE:.0%}"
            out.append((text, f"{good} of {len(part)}", good >= SHARE * len(part)))
            told = [f for f in part if f["status"] == "SOLVED"]
            wrong = sum(not right(f) for f in told)
            out.append((f"rows in {storage}: who says SOLVED is right", f"{wrong} of {len(told)} are not", wrong == 0))
            out.append((f"rows in {storage}: no false lower bound or gap", f"{false} false", false == 0))
    timed = [f for f in found if f["storage"] == "float64" and ratio(f) is not None]
    times = [r for r in map(ratio, timed) if r is not None]
    if times:
        for most, share in ((QUICK, MOST), (SLOW, 1.0)):
            n, strict = (
                sum(r <= most for r in times),
                sum(r is not None and r <= most for r in map(strict_ratio, timed)),
            )
            text = f"second call at most {most:g} times the faster of cvxpy and SLSQP on {share:.0%}"
            what = f"{n} of {len(times)} ({strict} beside cvxpy's repeated solve of one object)"
            out.append((text, what, n >= share * len(times)))
    return out


def failures(found: list[Found]) -> list[str]:
    """The claims that do not hold."""
    return [f"{text}: {what}" for text, what, holds in claims(found) if not holds]


def line(found: Found, title: str) -> str:
    """A line for whoever watches."""
    if found.get("status") == "BROKEN":
        return f"{title} BROKEN: {found['message']}"
    if "optimum" in found:
        from studies.real.truth import Reference

        wrong = Reference(**found).sound
        what = f"F* = {found['optimum']:.8g} by {found['by']}, {found['second']} {found['better']:+.1g}"
        return f"{title} {what}{'   SUSPECT: ' + wrong if wrong else ''}"
    marks = (
        " WRONG" * (found["status"] == "SOLVED" and not right(found))
        + " WARNED" * bool(found.get("warned"))
        + " violated" * bool(found["violated"])
        + " FALSE" * bool(found["false"])
        + " ref!" * bool(found["reference"])
    )
    times = f"{found['first']:6.2f} {found['second']:6.2f} s"
    r = ratio(found)
    beside = "" if r is None else f", {r:.1f} x {(peer(found) or ('', 0))[0]}"
    return f"{title} {found['status']:18} gap {found['gap']:8.1e} viol {found['violation']:7.1e} {times}{beside}{marks}"


def page(found: list[Found], about: dict[str, str]) -> str:
    """The page."""
    lines = [
        "# Real problems",
        "",
        "Written by `python -m studies.real --page` (`make real`). The problems are convex and stand on tables that",
        "scikit-learn, statsmodels, skfolio and tightrope ship, in raw units; `studies/real/families/` has them all.",
        "`tr.minimize(problem, arrays)` was given NumPy arrays, with JAX's switch for 64 bits off, and no option.",
        "Which half a problem is in is decided by a hash of its name: one was developed on, the other was looked at once,",
        "with 38 of 41 solved; since then it is developed on, too. Problems written later, most of them with kinks, stand",
        "apart: they were measured once, before anything was changed because of them.",
        "",
        "A gap is F(x) - F\\*, measured in float64, divided by the larger of |F\\*| and F(start) - F\\*. A violation is",
        "relative to the size of its constraint (its level, the mean of |h| and what single coordinates add to it,",
        f"whichever is largest) and counts from {VIOLATED:g} on; where opposite inequalities leave no interior, from",
        f"{NO_ROOM:g} on. A gap or lower bound that the result reports is false where the reference contradicts it.",
        "References are cvxpy's (Clarabel, on well-scaled variables), closed forms, or Newton's method; SciPy or a second",
        "solver of cvxpy's confirms them. Seconds are CPU seconds of first and second calls in one process. The faster of",
        "cvxpy, which writes the problem down anew for every call, as new data demand, and SLSQP, with exact derivatives",
        f"from the same start, counts where its answer is right, and as {INSTANT:g} s where it is faster than that.",
        "They were taken on two busy cores, where those of calls of some hundredths vary by a factor of two.",
        "To solve an object of cvxpy's again takes less, but then nothing can be new: those counts stand in brackets.",
    ]
    for half in ("develop", "unseen", "later"):
        part = [f for f in found if f["half"] == half]
        if part:
            lines += ["", *_half(half, part, about)]
    return "\n".join(lines) + "\n"


def _half(half: str, found: list[Found], about: dict[str, str]) -> list[str]:
    verdicts = [(text, what, "yes" if holds else "**no**") for text, what, holds in claims(found)]
    ends = [
        (storage, status, count, good)
        for storage in ("float64", "float32")
        for status, count, good in _ends([f for f in found if f["storage"] == storage])
    ]
    single = {f["name"]: f for f in found if f["storage"] == "float32"}
    double = {f["name"]: f for f in found if f["storage"] == "float64"}
    heads = ("problem", "n", "d", "N", "status", "gap", "violation", "first, s", "second, s", "peer, s", "times")
    rows = [
        [f"**{name}**: {about.get(name, '')}", *_cells(double.get(name)), *_short(single.get(name))]
        for name in sorted({**double, **single})
    ]
    return [
        "## Written later" if half == "later" else f"## The half called {half}",
        "",
        *markdown(("claim", "found", "holds"), verdicts),
        "",
        *markdown(("rows", "status", "count", "of them right"), ends),
        "",
        *markdown([*heads, "float32: status", "gap", "violation"], rows),
    ]


def _ends(found: list[Found]) -> list[tuple[str, int, int]]:
    counts = Counter(f["status"] for f in found)
    return [(s, n, sum(right(f) for f in found if f["status"] == s)) for s, n in counts.most_common()]


def _cells(found: Found | None) -> list[Any]:
    if found is None or found["status"] == "BROKEN":
        return ["-", "-", "-", "not measured" if found is None else "BROKEN", *["-"] * 6]
    best, r = peer(found), ratio(found)
    times = [f"{found['first']:.2f}", f"{found['second']:.3f}", "-" if best is None else f"{best[1]:.3f} ({best[0]})"]
    size = [found["n"], found["d"], found["N"]]
    return [*size, *_short(found), *times, "-" if r is None else f"{r:.1f}"]


def _short(found: Found | None) -> list[str]:
    if found is None or found["status"] == "BROKEN":
        return ["not measured" if found is None else "BROKEN", "-", "-"]
    status = (
        found["status"] + (", **false**" if found["false"] else "") + (", reference?" if found["reference"] else "")
    )
    violation = f"{found['violation']:.0e}" if found["violation"] else "0"
    violation = f"**{violation}**" if found["violated"] else violation
    return [status, "-" if math.isnan(found["gap"]) else f"{found['gap']:.0e}", violation]
