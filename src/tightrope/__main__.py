"""The program `tightrope`: its commands, and the options that stand before a command."""

import os
from typing import Annotated

import typer

from tightrope._compilation_cache import turn_on
from tightrope.lab.cli.leaderboard import leaderboard
from tightrope.lab.cli.reproduce import reproduce
from tightrope.learn.cli.classify import classify
from tightrope.learn.cli.complete import complete
from tightrope.learn.cli.errors import Commands, Debug, ends_when_interrupted
from tightrope.learn.cli.fit_predict import FitCommand, fit, predict
from tightrope.learn.cli.launch import launch
from tightrope.learn.cli.lists import datasets, methods, sets

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Stochastic optimisation with expectation constraints, and classifiers that keep a rule or a rate.",
)


def _version(wanted: bool) -> None:
    if wanted:
        import tightrope

        print(f"tightrope {tightrope.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Debug = False,
) -> None:
    pass


app.command(cls=FitCommand)(fit)
for command in (classify, predict, complete, launch, reproduce, leaderboard, methods, sets, datasets):
    app.command()(command)


def main() -> None:
    """Run the program with the words of the command line. What it compiles is kept for the next time."""
    turn_on(os.environ)
    with ends_when_interrupted():
        app()


if __name__ == "__main__":
    main()
