"""benchmarks/completion.md, from what benchmarks/completion.py measured."""

import os
import platform
import textwrap
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.stats import t as student

from studies.page import markdown, row

PACKAGES = ("tightrope", "jax", "numpy", "scipy", "scikit-learn", "fancyimpute", "copt")
ASKED = {"copt": 5, "SCGD": 10}  # how many times slower these should be
RULES = {"DR": "Demyanov-Rubinov", "sublinear": "2/(k + 2)", "exact": "exact line search"}
CALLS = ("30", "100", "300")


def _speed(part: dict[str, Any]) -> list[str]:
    found, tuned = part["found"], part["tuned"]
    ours = np.array([run["seconds"] for run in found["tightrope"]])
    rules = sorted({str(RULES.get(run["rule"], run["rule"])) for run in found["copt"]})
    reached = sum(np.isfinite(run["seconds"]) for run in tuned["tried"])
    best = ", ".join(f"{name} = {tuned['best'][name]:g}" for name in ("b", "gamma0", "rho0"))
    lines = [
        "## Seconds to a normalised error of 0.01",
        "",
        f"""The paper's instance (200 x 300, rank 10), seeds 0 to {len(ours) - 1}, taking turns; medians, and the range
        of the ratio. Ours is CFW-CSOA as it comes: whole calls with as many steps as it takes, the answer made
        feasible; the first call, which compiles, stands apart. copt minimises the error over the ball and knows no
        other constraint; it stops at the first good iterate by itself, with the fastest of its step rules and an
        exact line search (here: {", ".join(rules)}). SCGD, on sampled entries, has the paper's penalty and the
        fastest of {len(tuned["tried"])} settings ({best}; {reached} of them get there within 3,000 steps), and
        knows how many steps it takes.""",
        "",
        *markdown(("", "times ours", "asked for", "seconds", "LMO calls", "first call, s")),
    ]
    for name, runs in found.items():
        seconds = np.array([run["seconds"] for run in runs])
        ratios, asked = seconds / ours, ASKED.get(name)
        ratio = f"{np.median(ratios):.1f} ({ratios.min():.1f} to {ratios.max():.1f})" if asked else "1"
        verdict = f"at least {asked}: {'yes' if np.median(ratios) >= asked else 'no'}" if asked else ""
        first = f"{np.median([run['first'] for run in runs]):.1f}" if "first" in runs[0] else ""
        calls = int(np.median([run["lmos"] for run in runs]))
        lines.append(row(name, ratio, verdict, f"{np.median(seconds):.3f}", calls, first))
    return lines


def _candidates(part: dict[str, Any]) -> list[str]:
    lower, upper = part["lower"], part["upper"]
    lines = [
        "## What helps, and what does not",
        "",
        f"""CFW-CSOA on the instance of seed 0, one choice changed at a time, answers made feasible. First the
        normalised error with the paper's bound on the unobserved energy, where the optimum is close to 0; then,
        with half of that bound, so that the constraint binds, by how much the error exceeds the optimum. That is
        between {lower:.6f} and {upper:.6f}, by accelerated projected gradients with full decompositions and
        bisection over the multiplier ({part["multiplier"]:.4f}).""",
        "",
        *markdown(("", "30 LMO calls", "100", "300", "seconds for 100", "half: 30", "100", "300")),
    ]
    for name, shares in part["rows"].items():
        full, half = shares["1.0"], shares["0.5"]
        errors = [f"{full[n]['error']:.1e}" for n in CALLS]
        over = [f"{100 * (half[n]['error'] / upper - 1):.2f} %" for n in CALLS]
        lines.append(row(name, *errors, f"{full['100']['seconds']:.2f}", *over))
    return lines


def _ratings(part: dict[str, Any]) -> list[str]:
    lines = [
        "## Held-out error on MovieLens-100K",
        "",
        f"""{len(next(iter(part.values())))} random splits, 80 % to learn from; root mean squared error on the rest,
        predictions brought into 1 to 5: means, and the 95 % interval of the difference. Both have the
        same largest rank. Ours is `StructuredMatrixCompletion(rank=...)`, which chooses both bounds by a tenth of what
        it is given and fits mean and effects in turn with X; SoftImpute completes what the same mean and effects,
        fitted once, leave, and its shrinkage is chosen by the same tenth. Seconds are of choosing and fitting
        together.""",
        "",
        *markdown(
            ("rank", "means alone", "tightrope", "SoftImpute", "difference", "no worse", "seconds", "SoftImpute's")
        ),
    ]
    for rank, pairs in part.items():
        ours, soft, alone = (
            np.array([pair[who][what] for pair in pairs])
            for who, what in (("ours", "error"), ("SoftImpute", "error"), ("ours", "effects"))
        )
        apart, n = ours - soft, len(ours)
        wide = student.ppf(0.975, n - 1) * apart.std(ddof=1) / np.sqrt(n)
        seconds = [f"{np.median([pair[who]['seconds'] for pair in pairs]):.0f}" for who in ("ours", "SoftImpute")]
        means = [f"{errors.mean():.4f}" for errors in (alone, ours, soft)]
        verdict = "yes" if apart.mean() <= 0 else "within the interval" if apart.mean() <= wide else "no"
        lines.append(row(rank, *means, f"{apart.mean():+.4f} +- {wide:.4f}", verdict, *seconds))
    return lines


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False)


def page(known: dict[str, Any]) -> str:
    """The page of the parts that are known."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; {packages}."
    lines = ["# Structured matrix completion: peers", "", f"Written by `make bench-completion`. {machine}", ""]
    for name, maker in (("speed", _speed), ("candidates", _candidates), ("ratings", _ratings)):
        if name in known:
            lines += [*maker(known[name]["found"]), ""]
            if known[name]["load"] > 2.5:
                lines += [f"The machine was busy (load {known[name]['load']:.1f}): only ratios mean something.", ""]
    wrapped = [line if line.startswith("|") else _wrapped(line) for line in lines]
    return "\n".join(wrapped).rstrip() + "\n"
