"""`tightrope complete`: a matrix of ratings from a table."""

from pathlib import Path
from typing import Annotated

import typer

from tightrope.learn.cli.errors import Debug, stoppable
from tightrope.learn.cli.options import Force, Json, Out
from tightrope.learn.cli.output import check_folder
from tightrope.learn.cli.printing import noted, print_made


def complete(
    ratings: Annotated[Path, typer.Argument(help="The table, a row for each rating: .csv, .tsv or .parquet.")],
    user: Annotated[str, typer.Option(help="The column that says who rated.")],
    item: Annotated[str, typer.Option(help="The column that says what was rated.")],
    rating: Annotated[str, typer.Option(help="The column with the ratings, numbers.")],
    out: Out,
    rank: Annotated[int | None, typer.Option(help="The largest rank of the matrix; by default 32.")] = None,
    nuclear_norm: Annotated[
        float | None, typer.Option(help="The largest sum of singular values; by default chosen.")
    ] = None,
    unobserved_energy: Annotated[
        float | None, typer.Option(help="The largest half sum of squares of what was not rated; by default chosen.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Of the completion, at most.")] = 100,
    held_out: Annotated[float, typer.Option(help="The share of the ratings that is held out to measure on.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The same one gives the same model.", min=0)] = 0,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Complete a matrix of ratings, and compare its predictions with means on held-out ratings.

    Prints both errors and writes the model, a report and a picture.
    """
    from tightrope.learn.tables.ratings import complete_ratings
    from tightrope.learn.tables.reading import read_table

    check_folder(out, force)
    frame = read_table(ratings)
    notes: list[str] = []
    with stoppable(), noted(notes):  # the completion has progress bars of its own
        made = complete_ratings(
            frame, user, item, rating, test_share=held_out, seed=seed, rank=rank, nuclear_norm=nuclear_norm,
            unobserved_energy=unobserved_energy, steps=steps,
        )  # fmt: skip
    print_made(made, notes, out, as_json)
    if as_json:
        return
    users, items = (ids[:1].tolist() for ids in (made.model.users, made.model.items))
    print(
        f"from tightrope.learn.tables.ratings import RatingsModel; RatingsModel.load({str(out)!r}).predict({users}, {items})"
    )
