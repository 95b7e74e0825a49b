"""`tightrope leaderboard`: all methods against each other."""

from pathlib import Path
from typing import Annotated

import typer

from tightrope.cli.errors import Debug
from tightrope.cli.printing import print_table


def leaderboard(
    quick: Annotated[bool, typer.Option("--quick", help="Two problems and short runs, for a first look.")] = False,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; may be given several times. By default all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to; finished parts in it are not done again.")] = Path(
        "leaderboard"
    ),
    debug: Debug = False,
) -> None:
    """Run all methods against each other on problems with known solutions: same samples, same budget, same tuning."""
    from tightrope.experiments import leaderboard as contest

    board = contest.leaderboard(out, quick, method or [])
    print_table(contest.summary(board), whole=True)
    for sentence in board.sentences:
        print(f"- {sentence}")
    print(f"{len(board.exceptions)} exceptions to the published rates are listed in {out / 'leaderboard.txt'}.")
    print(f"Written to {out}.")
