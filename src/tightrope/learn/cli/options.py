"""Options that several commands share, and the words that some of them take."""

from enum import StrEnum
from typing import Annotated

import typer


class Text(StrEnum):
    """What text becomes: an indicator for each word, or one number a column."""

    indicators = "indicators"
    codes = "codes"


Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
TextOption = Annotated[Text, typer.Option(help="What text becomes: indicators, or codes, one number a column.")]
