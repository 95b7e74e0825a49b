"""A command as a user types it, and what it says."""

from typing import NamedTuple

from typer.testing import CliRunner

from tightrope.__main__ import app


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def call(*words: object) -> Said:
    """What `tightrope` says to these words; what it does not answer with a sentence is raised."""
    found = CliRunner().invoke(app, [str(word) for word in words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Said(found.exit_code, found.stdout, found.stderr)
