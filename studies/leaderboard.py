"""The page on the leaderboard: how it is run, who wins where, and every exception to a published rate with its cause.

Run as `python -m studies.leaderboard`; writes docs/leaderboard.md, docs/leaderboard/*.png and docs/leaderboard/*.csv. The
runs are those of `tightrope leaderboard`, twenty minutes of them; finished parts are kept in out/leaderboard.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from tightrope.leaderboard import Board, leaderboard
from tightrope.leaderboard.report import SLACK, last_budget, slower

HOW = """# The leaderboard

`tightrope leaderboard` runs every method on every problem with a known solution ([problems](problems.md)) that fits it;
`--quick` takes one problem of each division. Written by `python -m studies.leaderboard`.

## Rules

- **Two divisions.** *Streams*: fresh samples only. *Finite*: a data set at hand, so that variance reduction is allowed; the
  methods that need it enter, with CSOA, FW-CSOA and G-OCO as guests, and SLSQP as the batch reference.
- **Same samples, same calls.** The budget of a stream counts samples: a method that draws two a step takes half the
  steps. With data at hand it counts gradients of single rows (or samples, where a method uses more of these), looks at all
  the data included: n of them are a pass. Slow problems (matrices, 100 constraints) have smaller budgets.
- **Same tuning.** Nine settings of each method, by factors of 1/4, 1 and 4 on two coefficients or nine from 1/16 to 16
  on one, around its defaults; those with the best score on eight seeds are measured on twenty others. SVRG-CSOA and
  SVRF-CSOA choose their step sizes themselves and have nothing to tune. A margin is kept within half of the room that a
  two-sided constraint leaves.
- **The score** of an output x is F(x) - F* + (1 + |dual*|_1) max_i [H_i(x)]_+, without noise: an exact penalty, never
  negative, zero at the solution only. Where no point is feasible it is the violation in excess of the least possible.
- **Rates** are fitted to the Lagrangian gap F(x) - F* + <dual*, H(x)>, which is never negative either, over all budgets. The
  published rate of the gap holds together with that of the violation, so the slower of the two is what it is held against.
- **Not on equal terms**, and so not ranked: methods that know no constraints are given the optimal multipliers as a penalty
  (`tr.penalised`), some are given the constraints without noise, PFS a feasible start as well. Where the penalised problem
  has more minimisers than one (linear programmes), its solution may violate the constraints; the rate then tells more
  than the score.
- Intervals are at 95 %, over seeds. Seconds are those of a run among some 250 side by side.
"""

SWITCH = (
    "It switches by one noisy sample of the constraint and averages the points at which that sample was small, which "
    "favours points well inside; no number of steps removes this bias. Larger batches of the constraint do: on simplex, "
    "with default coefficients and after 6,400 steps, the gap F(x) - F* is 0.149 with J = 1 sample of it a step, 0.037 with "
    "J = 16 and 0.012 with J = 128, like J^-1/2; after 400 steps it was the same, 0.150, 0.032 and 0.010. A tolerance of "
    "T^-1/2 takes J of the order of T; `batch_size=(1, J)` gives it that, at J calls a step."
)
EXPLAINED: dict[str, str] = {"csa": SWITCH, "multi-csa": SWITCH}
"""Why a method is slower than published, with the evidence; by method, or by problem where it is the problem's doing."""


def page(board: Board) -> str:
    """The page docs/leaderboard.md."""
    lines = [HOW, "## Who wins where", "", *(f"- {line}" for line in board.sentences), ""]
    for division in dict.fromkeys(board.standings.division):
        lines += [f"![scores, {division}](leaderboard/scores-{division}.png)", ""]
        lines += [f"![curves, {division}](leaderboard/curves-{division}.png)", ""]
    lines += ["## Places", "", *_places(board.standings), "", "## Rates", "", *_rates(board)]
    return "\n".join(lines) + "\n"


def _places(standings: pd.DataFrame) -> Iterator[str]:
    """How often each method that was given nothing is first, among the first three, and its median place."""
    last = last_budget(standings)
    last = last[last["rank"].notna()]
    yield "| division | method | problems | first | first three | median place | tuned over untuned score |"
    yield "|---|---|---|---|---|---|---|"
    rows = []
    for (division, method), part in last.groupby(["division", "method"], sort=False):
        ranks, gain = part["rank"], (part["score"] / part["score, untuned"]).median()
        counts = f"{len(part)} | {int((ranks == 1).sum())} | {int((ranks <= 3).sum())}"
        rows.append(
            (division, ranks.median(), f"| {division} | {method} | {counts} | {ranks.median():g} | {gain:.2f} |")
        )
    order = {division: i for i, division in enumerate(dict.fromkeys(standings.division))}
    yield from (row for _, _, row in sorted(rows, key=lambda r: (order[r[0]], r[1])))


def _rates(board: Board) -> Iterator[str]:
    yield "![fitted and published rates](leaderboard/rates.png)"
    yield ""
    claimed = board.rates[board.rates["published gap"].notna() & board.rates["gap slope"].notna()]
    behind = slower(board.rates)
    yield (
        f"Of {len(claimed)} pairs of a method with a published rate and a problem, {len(claimed) - len(behind)} have a "
        f"fitted exponent that is at most {SLACK} worse, or better. The exceptions, and why:"
    )
    yield ""
    for cause in dict.fromkeys(map(_cause, board.exceptions)):
        found = [line for line in board.exceptions if _cause(line) == cause]
        yield f"- **{cause}**. {EXPLAINED.get(cause, 'Not explained yet.')}"
        yield from (f"  - {line}" for line in found)


def _cause(line: str) -> str:
    """The problem, where it explains the exception; else the method."""
    method, _, rest = line.partition(" on ")
    problem = rest.partition(" (")[0]
    return problem if problem in EXPLAINED else method


def main() -> None:
    """Run or resume, and write the page with its pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("out/leaderboard"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    board = leaderboard(options.runs)
    folder = options.docs / "leaderboard"
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*options.runs.glob("*.png"), *options.runs.glob("*.csv")]:
        shutil.copy(path, folder / path.name)
    (options.docs / "leaderboard.md").write_text(page(board))


if __name__ == "__main__":
    main()
