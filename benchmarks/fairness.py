"""Fair classification on Adult: tightrope and the libraries that a user might pick instead, in one run.

Every contender works in a process of its own, one after the other, because their thread pools disturb one another. Run as
`make bench-fairness`; writes benchmarks/fairness.md.
"""

import argparse
import importlib
import json
import logging
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.contest import BATCH, GAP, Adult, C, Contender
from studies.page import markdown, row

LIMIT, TUNING = 120.0, 20.0  # seconds that a run, and a run while settings are tried, may take
ASKED = 30  # how many times faster a step should be than a peer's

CONTENDERS = {
    "tightrope": ("ours", "Default"),
    "tightrope, stopped by its duality gap": ("ours", "SelfStopped"),
    "tightrope CSOA, tuned": ("ours", "TunedCSOA"),
    "tightrope CSOA, as it comes": ("ours", "PlainCSOA"),
    "Cooper": ("in_torch", "Cooper"),
    "humancompatible-train": ("in_torch", "HumanCompatible"),
    "SLSQP": ("in_batch", "SLSQP"),
    "scikit-lego": ("in_batch", "ScikitLego"),
    "fairlearn (another problem)": ("in_batch", "Fairlearn"),
}
STEPPERS = ("tightrope CSOA, as it comes", "Cooper", "humancompatible-train")
PACKAGES = (
    "tightrope", "jax", "jaxlib", "numpy", "scipy", "torch", "cooper-optim", "humancompatible-train", "scikit-lego",
    "cvxpy", "fairlearn", "scikit-learn",
)  # fmt: skip


# In the child: one contender, one job.


def tune(contender: Contender) -> dict[str, Any]:
    """The setting that reaches the target in every seed in the least time, and all that was tried."""
    best, least, tried = None, np.inf, []
    for setting in contender.grid():
        spent, runs = 0.0, []
        for seed in contender.seeds:
            runs.append(contender.run(setting, seed, min(TUNING, least - spent)))
            spent += runs[-1].seconds
            if not runs[-1].reached:
                break
        tried.append({"setting": setting, **asdict(runs[-1])})
        if all(run.reached for run in runs):
            if contender.cheapest_first:
                return {"setting": setting, "tried": tried}
            if spent < least:
                best, least = setting, spent
    return {"setting": best, "tried": tried}


def measure(contender: Contender, setting: dict[str, Any]) -> dict[str, Any]:
    """The first run, which compiles where something is compiled, and the median of one run per seed."""
    first = contender.run(setting, contender.seeds[0], LIMIT) if contender.compiles else None
    runs = []
    for seed in contender.seeds:
        runs.append(contender.run(setting, seed, LIMIT))
        if sum(run.seconds for run in runs) > LIMIT:
            break
    return {
        "first": first.seconds if first else None,
        "seconds": float(np.median([run.seconds for run in runs])),
        "reached": all(run.reached for run in runs) and max(run.seconds for run in runs) <= LIMIT,
        "note": runs[-1].note,
        "looks_at_all_rows": contender.looks_at_all_rows,
        "retune": contender.retune,
    }


def child(order: dict[str, Any]) -> None:
    logging.disable(logging.WARNING)  # scikit-lego logs that its solver ignores an option
    module, name = CONTENDERS[order["contender"]]
    contender = getattr(importlib.import_module(f"benchmarks.peers.{module}"), name)(Adult(order["copies"]))
    jobs = {"tune": lambda: tune(contender), "measure": lambda: measure(contender, order["setting"])}
    jobs["step"] = lambda: {"seconds": contender.step()}
    print("\n" + json.dumps(jobs[order["job"]]()))


# In the parent: who does what, and the page.


def ask(contender: str, job: str, copies: int = 1, setting: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """The answer of a child process; None where it took too long."""
    order = {"contender": contender, "job": job, "copies": copies, "setting": setting}
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
    if CONTENDERS[contender][0] != "in_batch":
        environment["OPENBLAS_NUM_THREADS"] = "1"  # only the judge uses it there, and its idle threads spin
    command = [sys.executable, "-m", "benchmarks.fairness", "--child", json.dumps(order)]
    timeout = LIMIT * (6 if job == "tune" else 3)
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=timeout, check=True)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def steps() -> list[str]:
    """What a step on a mini-batch costs, as the lines of a table."""
    seconds = {}
    for name in STEPPERS:
        answer = ask(name, "step")
        assert answer is not None, f"{name} took longer than {3 * LIMIT:.0f} s for a few thousand steps."
        seconds[name] = answer["seconds"]
        say(f"step: {name}: {1e6 * seconds[name]:.1f} microseconds")
    ours = seconds[STEPPERS[0]]
    lines = markdown(("", "times tightrope's step", "asked for", "microseconds a step"))
    for name, value in seconds.items():
        asked = "" if name == STEPPERS[0] else f"at least {ASKED}: {'yes' if value >= ASKED * ours else 'no'}"
        lines.append(row(name, f"{value / ours:.1f}", asked, f"{1e6 * value:.1f}"))
    return lines


def contest(sizes: list[int]) -> tuple[dict[str, dict[int, dict[str, Any] | str]], dict[str, dict[str, Any]]]:
    """For every contender and number of copies what was measured, or why nothing was; and what tuning said."""
    measured: dict[str, dict[int, dict[str, Any] | str]] = {name: {} for name in CONTENDERS}
    tuned: dict[str, dict[str, Any]] = {}
    for name in CONTENDERS:
        setting, last = None, None
        for copies in sizes:
            if last is not None:
                grown = last["seconds"] * (copies / last["copies"] if last["looks_at_all_rows"] else 1)
                if grown > LIMIT:
                    measured[name][copies] = f"skipped: about {grown:.0f} s expected"
                    say(f"{name}, {copies} x the rows: {measured[name][copies]}")
                    continue
            if setting is None or (last is not None and last["retune"]):
                found = ask(name, "tune", copies)
                tuned.setdefault(name, found or {})
                setting = found and found["setting"]
            answer = setting and ask(name, "measure", copies, setting)
            if not answer or not answer["reached"]:
                measured[name][copies] = (
                    f"not reached within {LIMIT:.0f} s" if setting else "not reached by any setting"
                )
                say(f"{name}, {copies} x the rows: {measured[name][copies]}")
                break
            last = answer | {"copies": copies, "setting": setting}
            measured[name][copies] = last
            say(f"{name}, {copies} x the rows: {answer['seconds']:.3f} s with {setting}")
    return measured, tuned


def written(setting: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value if isinstance(value, bool) else f'{value:g}'}" for name, value in setting.items())


def time_to_target(measured: dict[str, dict[int, dict[str, Any] | str]], copies: int) -> list[str]:
    """How long each contender takes to the target, as the lines of a table."""
    ours = measured["tightrope"][copies]
    unit, cold_unit = (ours["seconds"], ours["first"]) if isinstance(ours, dict) else (float("nan"), float("nan"))
    lines = markdown(("", "times tightrope's time", "compilation counted", "seconds", "first run", "setting"))
    for name, by_size in measured.items():
        got = by_size.get(copies)
        if not isinstance(got, dict):
            lines.append(row(name, got, "", "", "", ""))
            continue
        cold = got["first"] or got["seconds"]
        ratios = f"{got['seconds'] / unit:.2f}", f"{cold / cold_unit:.3f}"
        lines.append(row(name, *ratios, f"{got['seconds']:.3f}", f"{cold:.3f}", written(got["setting"])))
    return lines


def growth(measured: dict[str, dict[int, dict[str, Any] | str]], sizes: list[int]) -> list[str]:
    """How that grows with the number of rows, as the lines of a table."""
    lines = markdown(("", *(f"{k} x the rows" for k in sizes)))
    for name, by_size in measured.items():
        cells = []
        for copies in sizes:
            got, ours, own = by_size.get(copies, ""), measured["tightrope"].get(copies), by_size.get(sizes[0])
            if isinstance(got, dict) and isinstance(ours, dict) and isinstance(own, dict):
                seconds = got["seconds"]
                cells.append(f"{seconds / own['seconds']:.1f}; {seconds / ours['seconds']:.2f} ({seconds:.2f} s)")
            else:
                cells.append(str(got))
        lines.append(row(name, *cells))
    return lines


def bounds(tried: list[dict[str, Any]], adult: Adult) -> list[str]:
    """What fairlearn's bounds lead to, beside the optimum of our problem."""
    decisions = (adult.rows @ adult.best > 0).astype(float)
    ours = {"p_rule": adult.p_rule, "accuracy": adult.accuracy(decisions), "covariance": adult.covariance(adult.best)}
    found = [("the optimum of our problem", ours)]
    found += [(f"fairlearn, {written(one['setting'])}", one["note"]) for one in tried]
    heads = ("", "p%-rule", "accuracy", "covariance of the mean score")
    return markdown(
        heads, ((who, f"{n['p_rule']:.3f}", f"{n['accuracy']:.4f}", f"{n['covariance']:.4f}") for who, n in found)
    )


def page(step_lines: list[str], measured: Any, tuned: dict[str, dict[str, Any]], sizes: list[int]) -> str:
    """The page benchmarks/fairness.md."""
    adult = Adult()
    n, d = adult.rows.shape
    lines = [
        "# Fair classification: the peers",
        "",
        f"Written by `make bench-fairness`. Adult, label-encoded, {n:,} rows and {d} coefficients, logistic loss without",
        f"a penalty, |covariance of score and sensitive attribute| <= {C}, from x = 0. All figures are from one run on",
        "one machine, each contender in a process of its own; seconds are there to make sense of ratios. Stochastic",
        "methods work in float32, the others in float64.",
        "",
        f"## One step on a mini-batch of {BATCH}",
        "",
        "Loss and covariance from the mini-batch, two constraints. tightrope: CSOA in `tr.minimize` on arrays, all of it",
        "but compilation. Cooper: Lagrangian, `SimultaneousOptimizer`, SGD for both. humancompatible-train: `ALM`, SGD.",
        "",
        *step_lines,
        "",
        f"## Time to a gap of {GAP:g} without violation",
        "",
        "Judged in float64 on all rows, against the optimum by SLSQP at 1e-15. Every contender may know the covariance",
        "exactly (it is linear in x) and gets the best setting of a small grid, the one that takes the least time over the",
        "seeds it is then measured on. tightrope runs for a number of passes or steps fixed beforehand and has to reach",
        "the target in each of five seeds. Cooper and humancompatible-train get what a user would not have: their last and",
        "their mean iterate are looked at every 50 steps, off the clock, and the first good one ends the run, in each of",
        f"three seeds. Among their settings are a margin of 0.003 below {C}, and the exact covariance or the mini-batch's.",
        "Medians over the seeds. Compilation happens once per process and shape; the second ratio and the first run",
        "count it, imports and the loading of data are not counted for anybody.",
        "",
        *time_to_target(measured, sizes[0]),
        "",
        "fairlearn solves another problem: it bounds the difference of the groups' acceptance rates for a randomised",
        "classifier that minimises the error, with scikit-learn's logistic regression inside. It counts as done when its",
        "p%-rule is at least that of the optimum of our problem. What its bounds lead to:",
        "",
        *bounds(tuned.get("fairlearn (another problem)", {}).get("tried", []), adult),
        "",
        "## More rows",
        "",
        f"The same target with every row repeated: how many times as long as at {sizes[0]} x; how many times as long as",
        f"tightrope at the same size; seconds. What would take more than {LIMIT:.0f} s, going by the size before, is",
        "skipped.",
        "",
        *growth(measured, sizes),
        "",
        "## Versions",
        "",
        f"Python {platform.python_version()}, {os.cpu_count()} cores, "
        + ", ".join(f"{package} {version(package)}" for package in PACKAGES)
        + ".",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 10, 100], help="how often the rows are repeated")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    step_lines = steps()
    measured, tuned = contest(options.copies)
    options.out.write_text(page(step_lines, measured, tuned, options.copies))
    print(options.out.read_text())


if __name__ == "__main__":
    main()
