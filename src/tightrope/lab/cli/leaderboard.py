"""`tightrope leaderboard`: all methods against each other."""

from pathlib import Path
from typing import Annotated

import typer

from tightrope.learn.cli.errors import Debug
from tightrope.learn.cli.printing import print_table


def leaderboard(
    quick: Annotated[bool, typer.Option("--quick", help="Three problems and short runs, for a first look.")] = False,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; may be given several times. By default all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to; finished parts in it are not done again.")] = Path(
        "leaderboard"
    ),
    processes: Annotated[int, typer.Option(min=1, help="How many to work with, side by side.")] = 1,
    hidden_seed: Annotated[
        int | None,
        typer.Option(min=0, help="What hidden instances are drawn from; by default a hash of the version's number."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Run all methods against each other on problems with known solutions: same samples, same budget, same tuning.

    Or none: in the divisions called "defaults" no method is given a coefficient. Those called "lmos" compare methods
    without projections at equal numbers of linear minimisations, those called "hidden" take random problems that nobody has
    looked at.
    """
    from tightrope.lab import leaderboard as contest

    board = contest.leaderboard(out, quick, method or [], processes=processes, hidden_seed=hidden_seed)
    print_table(contest.summary(board), whole=True)
    for sentences in board.sentences.values():
        for sentence in sentences:
            print(f"- {sentence}")
    print(f"{len(board.exceptions)} exceptions to the published rates are listed in {out / 'leaderboard.txt'}.")
    print(f"Written to {out}.")
