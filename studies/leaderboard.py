"""The page on the leaderboard: how it is run, who wins where, and every exception to a published rate with its cause.

Run as `python -m studies.leaderboard --processes 2`; writes docs/leaderboard.md, docs/leaderboard/*.png and
docs/leaderboard/*.csv. The runs are those of `tightrope leaderboard`; finished parts are kept in out/leaderboard, so that an
interrupted call goes on where it was. With `--evidence` the longer runs behind the explanations are made first, another ten
minutes (studies/longer_runs.py).
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.longer_runs import RESCALED, longer_runs
from studies.page import markdown
from tightrope import __version__ as VERSION
from tightrope.lab.leaderboard import (
    DIVISIONS,
    SLACK,
    Board,
    Division,
    Size,
    all_runs,
    board,
    last_budget,
    leaderboard,
    slower,
    write,
)
from tightrope.lab.leaderboard.divisions import SOURCES, Counted
from tightrope.lab.leaderboard.hidden import SEED, hidden, is_hidden

HOW = """# The leaderboard

`tightrope leaderboard` runs every method on every problem with a known solution ([problems](problems.md)) that fits it, and
on random ones that nobody has looked at (hidden instances, below); `--quick` takes one problem of each source and one hidden
instance. Written by `python -m studies.leaderboard`.

## Rules

- **Two sources.** *Streams*: fresh samples only. *Finite*: a data set at hand, so that variance reduction is allowed;
  methods for streams draw rows from it, and SLSQP is the batch reference.
- **Divisions.** On each source methods are ranked *tuned* and with *defaults* only: as `minimize` takes them from their name
  alone, with no coefficient given. Both are done twice: budgets count oracle calls, or linear minimisations (LMOs). On
  *hidden* instances there are defaults and calls only.
- **Same samples, same calls.** The budget of a stream counts samples: a method that draws two a step takes half the
  steps. With data at hand it counts gradients of single rows (or samples, where a method uses more of these), looks at all
  the data included: n of them are a pass. Slow runs (matrices, 100 constraints, exact means) have smaller budgets.
- **Same linear minimisations** (the divisions called *lmos*). Methods that move by linear minimisations alone, and are
  given nothing that others are not, are measured at equal numbers of these, with the batches that they take elsewhere;
  samples are not counted. On streams all of them minimise once a sample, with data at hand some once a pass.
- **Same tuning.** Nine settings of each method, by factors of 1/4, 1 and 4 on two coefficients or nine from 1/16 to 16
  on one, around its defaults; those with the best score on four seeds, over all budgets, are measured on twelve others. CSOA
  and FW-CSOA are tuned by the coefficients of the printed rule; without any they measure their scales instead. A margin is
  kept within half of the room that a two-sided constraint leaves.
- **The score** of an output x is `F(x) - F* + (1 + |dual*|_1) max_i [H_i(x)]_+`, without noise: an exact penalty, never
  negative, zero at the solution only. Where no point is feasible it is the violation in excess of the least possible.
- **Rates** are fitted to the Lagrangian gap F(x) - F* + <dual*, H(x)>, which is never negative either, over all budgets. The
  published rate of the gap holds together with that of the violation, so the slower of the two is what it is held against.
  Where there is curvature this gap is of second order in the distance to the solution, so that it may fall twice as fast
  as theorems promise, and being held against them says little. The score is of first order, in the objective and in the
  violation; its exponent is fitted beside, to the same runs, and is the sharper of the two.
- **Not on equal terms**, and so not ranked: methods that know no constraints are given the optimal multipliers as a penalty
  (`tr.penalised`), some are given the constraints without noise, PFS a feasible start as well. Where the penalised problem
  has more minimisers than one (linear programmes), its solution may violate the constraints; the rate then tells more
  than the score.
- Intervals are at 95 %, over seeds; methods that see all rows at every step have nothing to vary. Seconds are those of a run
  among 144 side by side. Every run is a line of [runs.csv.gz](leaderboard/runs.csv.gz).
"""

SWITCH = (
    "It switches by one noisy sample of the constraint and averages the points at which that sample was small, which "
    "favours points well inside; no number of steps removes this bias. Larger batches of the constraint do: on simplex, "
    "with default coefficients and after 6,400 steps, the gap F(x) - F* is 0.149 with J = 1 sample of it a step, 0.037 with "
    "J = 16 and 0.012 with J = 128, like J^-1/2; after 400 steps it was the same, 0.150, 0.032 and 0.010. A tolerance of "
    "T^-1/2 takes J of the order of T; `batch_size=(1, J)` gives it that, at J calls a step."
)
OFW = (
    "It looks at all samples so far in every round, so t samples cost t^2/2 gradients, and gradients are what the budget "
    "counts: T^-1/2 in samples is T^-1/4 here, and on simplex its exponent is within 0.15 of that. Portfolio is not smooth."
)
FEW_STEPS = (
    "A step looks at all rows, so that the budgets are 1, 4 and 16 steps (on completion 3, 13 and 53), too few to read a "
    "rate off. With 25 to 410 steps on neyman-pearson and 26 to 426 on completion the gap falls as published (second table "
    "below)."
)
ILL_SCALED = (
    "The condition number is 1e8. A step that the steepest coordinate bears moves the flattest one by nothing, and "
    "6,400 samples end long before the rate begins. In variables and constraints divided by their scales, the same runs "
    "have the published rates or better (first table below); unscaled, CSOA and G-OCO need 50,000 to 800,000 samples to "
    "come to exponents of 0.3. Scale variables and constraints before any first-order method."
)
EARLY = (
    "6,400 samples are too few for the rate to show: with 12,800 to 204,800 (SLPMM: 3,200 to 51,200) the same methods are "
    "within 0.15 of the published rate, or better (second table below)."
)
PORTFOLIO = (
    f"{EARLY} The problem is not smooth (CVaR is a mean of positive parts), so that what is published of projection-free "
    "methods (FW-CSOA, 1-SFW, OFW, SVRF, Akhtar-Rajawat) does not cover it, and they do stall: a vertex for the gradient on "
    "one side of a kink is no direction of descent."
)
EXPLAINED: dict[str, str] = {
    "csa": SWITCH,
    "multi-csa": "As CSA, and for the same reason.",
    "coexcg": FEW_STEPS,
    "coexdurcg": FEW_STEPS,
    "ofw": OFW,
    "ill-scaled": ILL_SCALED,
    "box-qcqp": EARLY,
    "portfolio": PORTFOLIO,
    "Refused": "SLSQP is told boxes, balls and simplices as constraints; the sets of these problems are something else.",
}
"""Why a method is slower than published, with the evidence; by method, or by problem where it is the problem's doing."""


def page(board: Board, evidence: pd.DataFrame | None = None) -> str:
    """The page docs/leaderboard.md."""
    lines = [
        HOW,
        *PROFILES,
        "",
        "## Who wins where, tuned",
        "",
        *_shown(board, *(Division(source) for source in SOURCES)),
    ]
    lines += ["## Who wins where, with defaults only", "", *_automatic(board.standings), ""]
    lines += _shown(board, *(Division(source, defaults=True) for source in SOURCES))
    lines += _hidden(board.standings)
    lines += ["## Places", "", *PLACES, "", *_places(board.standings, "calls")]
    lines += ["## At equal numbers of linear minimisations", "", *LMOS, "", *_places(board.standings, "lmos")]
    by_lmos = [division for division in DIVISIONS.values() if division.counted == "lmos"]
    lines += _shown(board, *by_lmos, pictures=("curves",))
    lines += ["## Rates", "", *_rates(board), ""]
    lines += [] if evidence is None else ["## Evidence", "", *_evidence(evidence)]
    return "\n".join(lines).rstrip() + "\n"


PROFILES = (
    "## How much is solved",
    "",
    "Of each problem there are sixteen targets: scores of 10^-1/4, 10^-1/2, ..., 10^-4 of that of the starting point. A "
    "curve is the share of all targets of all problems that a method meets within a part of the largest budget, as a mean "
    "over seeds.",
    "",
    "![share of targets met](leaderboard/profiles.png)",
)
PLACES = (
    "Scores are in units of the tuned winner's on the same problem, as geometric means over problems; the last column is "
    "the method's own score with defaults over its tuned one.",
)
LMOS = (
    "The bundle is not here: it solves programmes on the domain and asks for no linear minimisation. SFW, SVRF, OFW and the "
    "others that are given multipliers or exact constraints are not either.",
)


def _shown(board: Board, *divisions: Division, pictures: tuple[str, ...] = ("scores", "curves")) -> Iterator[str]:
    """What is said of divisions, and their pictures."""
    there = [division.name for division in divisions if division.name in board.sentences]
    for name in there:
        yield from (f"- {line}" for line in board.sentences[name])
    yield ""
    for name in there:
        for kind in pictures:
            yield from (f"![{kind}, {name}](leaderboard/{kind}-{name}.png)", "")


def _ranked(standings: pd.DataFrame, division: Division) -> pd.DataFrame:
    """The last budgets of the methods on equal terms, with scores in units of the tuned winner's."""
    last = last_budget(standings)
    last = last[last["rank"].notna()]
    tuned = last[last.division == division._replace(defaults=False).name]
    best = tuned.groupby("problem").score.min()
    mine = last[last.division == division.name]
    return mine.assign(times=mine.score / mine.problem.map(best).clip(lower=1e-12))


def _automatic(standings: pd.DataFrame) -> Iterator[str]:
    """Where "auto" comes."""
    for source in SOURCES:
        ranked = _ranked(standings, Division(source, defaults=True))
        auto = ranked[ranked.auto]
        if len(auto):
            taken = ", ".join(f"{method} on {count}" for method, count in auto.method.value_counts().items())
            first, three, median, times = _summary(auto)
            yield (
                f'- **"auto"** on {source} takes {taken}: first on {first} of {len(auto)} problems, among the first three '
                f"on {three}, median place {median} of {ranked.groupby('problem').size().max()}. Its score is {times} "
                "times the tuned winner's in geometric mean."
            )


HIDDEN = """## Hidden instances

Problems that can be looked at can be tuned for, by hand or by habit. So the last divisions draw theirs. Number k of seed s
is called `hidden-s-k`; the seed here is {seed}, {chosen}.

What is drawn: a loss of an affine score (none, least squares, absolute, logistic or hinge) and a linear cost; up to
twelve constraints, which are means of affine scores through a link (linear, quadratic, logistic, hinge or a mixture);
a box, a ball, a simplex, an l1 ball or a nuclear ball; 2 to 50 coordinates, 500 rows, and noise of a tenth to three
times the scale of the functions. An instance is built backwards from its solution and multipliers, so that no solver
is asked, and checked by a bound on the gap (`src/tightrope/lab/leaderboard/hidden.py`). Functions, points and
noise are of order one, which is what plain defaults are made for. No method has a coefficient, and none is given
multipliers or exact constraints. `tightrope leaderboard --hidden-seed 2` draws others; even seeds are to develop on.
"""


def _hidden(standings: pd.DataFrame) -> Iterator[str]:
    """The hidden instances: where "auto" comes among all, and everybody's places."""
    last = last_budget(standings)
    last = last[last.division.map(lambda name: DIVISIONS[str(name)].hidden) & last["rank"].notna()]
    if last.empty:
        return
    names = list(dict.fromkeys(last.problem))
    seed = int(names[0].split("-")[1])
    yield HIDDEN.format(
        seed=seed,
        chosen=f"a hash of the version, {VERSION}, which nobody chose"
        if seed == SEED
        else "given by hand, and not for judging",
    )
    best = last.groupby(["division", "problem"]).score.min()
    last = last.assign(
        times=last.score / best.loc[list(zip(last.division, last.problem, strict=True))].clip(1e-12).to_numpy()
    )
    for source in SOURCES:
        part = last[last.division == Division(source, defaults=True, hidden=True).name]
        auto = part[part.auto]
        first, three, median, times = _summary(auto)
        taken = ", ".join(f"{method} on {count}" for method, count in auto.method.value_counts().items())
        entrants = part.groupby("problem").size().max()
        yield (
            f'- **"auto"** on {source} takes {taken}: first on {first} of {len(auto)} instances, among the first three on '
            f"{three}, median place {median} of {entrants}. Its score is {times} times the winner's in geometric mean."
        )
    yield ""
    for source in SOURCES:
        part = last[last.division == Division(source, defaults=True, hidden=True).name]
        rows = [(one["rank"].median(), (method, len(one), *_summary(one))) for method, one in part.groupby("method")]
        rows.append((np.inf, ('**"auto"**', int(part.auto.sum()), *_summary(part[part.auto]))))
        heads = ("method", "instances", "first", "first three", "median place", "score, in winners'")
        ordered = [cells for _, cells in sorted(rows, key=lambda row: row[0])]
        yield from (f"### {source.capitalize()}, hidden", "", *markdown(heads, ordered), "")
    yield from ("### What was drawn", "", *markdown(("instance", "what it is", *SOURCES), _drawn(last, names)), "")
    for source in SOURCES:
        yield from (f"![scores, {source}-hidden](leaderboard/scores-{source}-hidden.png)", "")


def _drawn(last: pd.DataFrame, names: list[str]) -> Iterator[tuple[str, ...]]:
    """Each instance: what it is, and from each source the winner and the place of "auto"."""
    for name in names:
        cells = []
        for source in SOURCES:
            part = last[(last.problem == name) & (last.division == f"{source}-hidden")].sort_values("rank")
            auto = part[part.auto].iloc[0]
            cells.append(f"{part.method.iloc[0]} wins, auto ({auto.method}) is {auto['rank']:.0f} of {len(part)}")
        yield (name, hidden(name).noise, *cells)


def _summary(part: pd.DataFrame) -> tuple[Any, ...]:
    """Firsts, places among the first three, the median place, and the geometric mean of scores over the tuned winner's."""
    ranks = part["rank"]
    return int((ranks == 1).sum()), int((ranks <= 3).sum()), f"{ranks.median():g}", f"{_geometric(part.times):.3g}"


def _geometric(values: pd.Series) -> float:
    return float(np.exp(np.log(values.clip(lower=1e-12)).mean()))


def _places(standings: pd.DataFrame, counted: Counted) -> Iterator[str]:
    """Every method on equal terms, tuned and with defaults side by side, and "auto"."""
    heads = ("first", "first three", "median place", "score")
    heads = ("method", "problems", *(f"{head}, tuned" for head in heads), *(f"{head}, defaults" for head in heads))
    for source in SOURCES:
        tuned, plain = (_ranked(standings, Division(source, defaults, counted)) for defaults in (False, True))
        if tuned.empty:
            continue
        rows = []
        for method, part in tuned.groupby("method", sort=False):
            same = plain[plain.method == method]
            both = part.merge(same, on="problem", suffixes=("", ", defaults"))
            gain = _geometric(both["score, defaults"] / both.score.clip(lower=1e-12))
            rows.append((part["rank"].median(), (method, len(part), *_summary(part), *_summary(same), f"{gain:.2f}")))
        auto = plain[plain.auto]
        if len(auto):
            rows.append((np.inf, ('**"auto"**', len(auto), "", "", "", "", *_summary(auto), "")))
        cells = [cells for _, cells in sorted(rows, key=lambda row: row[0])]
        yield from (f"### {source.capitalize()}", "", *markdown((*heads, "defaults over tuned"), cells), "")


def _rates(board: Board) -> Iterator[str]:
    yield "![fitted and published rates](leaderboard/rates.png)"
    yield ""
    claimed = board.rates[board.rates["published gap"].notna() & board.rates["gap slope"].notna()]
    behind = slower(board.rates)
    yield (
        f"Of {len(claimed)} pairs of a method with a published rate and a problem, {len(claimed) - len(behind)} have a "
        f"fitted exponent of the Lagrangian gap that is at most {SLACK} worse, or better. {_of_scores(board)}"
    )
    yield ""
    yield "The exceptions of the Lagrangian gap, and why:"
    yield ""
    noise = [line for line in board.exceptions if "its interval allows that" in line]
    rest = [line for line in board.exceptions if line not in noise]
    for cause in dict.fromkeys(map(_cause, rest)):
        found = [line for line in rest if _cause(line) == cause]
        yield f"- **{cause}**. {EXPLAINED.get(cause, 'Not explained yet.')}"
        yield from (f"  - {line}" for line in found)
    if noise:
        yield "- **Within the noise**: the 95 % interval of the exponent reaches what is published, less the slack."
        yield from (f"  - {line}" for line in noise)


def _of_scores(board: Board) -> str:
    """How many exponents of the score are within the slack, and how the two exponents compare."""
    claimed = board.rates[board.rates["published gap"].notna() & board.rates["score slope"].notna()]
    behind = slower(claimed, "score")
    sure = behind[-behind["score low"] < behind["published gap"].astype(float) - SLACK]
    medians = [f"{-claimed[f'{what} slope'].median():.2f}" for what in ("gap", "score")]
    return (
        f"Of the score it is {len(claimed) - len(behind)} of {len(claimed)}, and {len(sure)} of the other {len(behind)} are "
        f"behind by more than their intervals: three budgets and twelve seeds give an exponent to within "
        f"{((claimed['score high'] - claimed['score low']) / 2).median():.2f} (median half width). The median exponent is "
        f"{medians[0]} of the Lagrangian gap and {medians[1]} of the score."
    )


def _cause(line: str) -> str:
    """What explains an exception: the method, or else the problem; the method where nothing does yet."""
    method, _, rest = line.partition(" on ")
    problem = rest.partition(" (")[0]
    if ": refused" in line:
        return "Refused"
    return problem if method not in EXPLAINED and problem in EXPLAINED else method


def _evidence(table: pd.DataFrame) -> Iterator[str]:
    """The fitted rates of longer runs, and of the ill-scaled problem in scaled variables."""
    heads = ("division", "problem", "method", "calls", "exponent of the gap", "published", "last gap", "last worst H")
    for title, part in (
        ("Ill-scaled, in scaled variables and constraints", table[table.problem == RESCALED]),
        ("Longer runs", table[table.problem != RESCALED]),
    ):
        yield f"### {title}"
        yield ""
        rows = []
        for row in part.sort_values(["problem", "method"]).to_dict("records"):
            calls = f"{row['first']:,} to {row['last']:,}"
            fitted = f"{-row['gap slope']:.2f} [{-row['gap high']:.2f}, {-row['gap low']:.2f}]"
            ends = f"{row['published gap']:.2f}", f"{row['last gap']:.1e}", f"{row['last violation']:+.1e}"
            rows.append((row["division"], row["problem"], row["method"], calls, fitted, *ends))
        yield from markdown(heads, rows)
        yield ""


def main() -> None:
    """Run or resume, and write the page with its pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("out/leaderboard"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--processes", type=int, default=1, help="how many to work with, side by side")
    parser.add_argument("--quick", action="store_true", help="two problems and short runs, to look at the page")
    parser.add_argument(
        "--saved", action="store_true", help="make the page and its pictures again from the runs that it links to"
    )
    parser.add_argument(
        "--hidden",
        action="store_true",
        help="run the hidden instances alone, and add them to the runs that the page links to",
    )
    parser.add_argument("--hidden-seed", type=int, help="another seed of hidden instances; even ones are to develop on")
    parser.add_argument("--evidence", action="store_true", help="make the longer runs behind the explanations again")
    options = parser.parse_args()
    folder = options.docs / "leaderboard"
    folder.mkdir(parents=True, exist_ok=True)
    evidence = folder / "evidence.csv"
    if options.evidence:
        longer_runs().to_csv(evidence, index=False)
    if options.saved or options.hidden:
        runs = pd.read_csv(folder / "runs.csv.gz", low_memory=False)
        if options.hidden:
            drawn = Size(
                streams=(), tables=(), hidden_seed=SEED if options.hidden_seed is None else options.hidden_seed
            )
            known = runs[~runs.problem.map(is_hidden)]
            runs = pd.concat([known, all_runs(options.runs, drawn, processes=options.processes)], ignore_index=True)
        found = board(runs)
        write(folder, runs, found)
        (folder / "leaderboard.txt").unlink()  # the page says it
    else:
        found = leaderboard(options.runs, options.quick, processes=options.processes, hidden_seed=options.hidden_seed)
        for path in [*options.runs.glob("*.png"), *options.runs.glob("*.csv"), options.runs / "runs.csv.gz"]:
            shutil.copy(path, folder / path.name)
    known = pd.read_csv(evidence) if evidence.exists() else None
    text = page(found, known)
    (options.docs / "leaderboard.md").write_text(text)
    for picture in folder.glob("*.png"):
        if f"leaderboard/{picture.name}" not in text:
            picture.unlink()


if __name__ == "__main__":
    main()
