"""`tightrope reproduce`: the figures of the paper, and verdicts on its claims."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tightrope.learn.cli.errors import Debug
from tightrope.learn.cli.printing import print_table
from tightrope.names import in_terminal


def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Which figures; by default all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and shorter runs, for a first look.")] = False,
    out: Annotated[Path, typer.Option(help="The folder to write to; finished parts in it are not done again.")] = Path(
        "report"
    ),
    debug: Debug = False,
) -> None:
    """Compute the figures of the paper and judge its claims by them."""
    from tightrope.lab import paper

    claims = paper.reproduce(figures or [], out, quick)
    table = Table("figure", "verdict", "claim", "evidence")
    for figure, judged in claims.items():
        for claim in judged:
            table.add_row(*map(in_terminal, (figure, claim.verdict, claim.sentence, claim.evidence)))
    print_table(table)
    print(f"Written to {out}; open {out / 'index.html'}.")
