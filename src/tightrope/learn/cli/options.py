"""Options that several commands share, and the words that some of them take."""

from enum import StrEnum
from typing import Annotated

import typer


class Text(StrEnum):
    """What text becomes: an indicator for each word, or one number a column."""

    indicators = "indicators"
    codes = "codes"


class Notion(StrEnum):
    """Among whom rates are compared. They are those of `tightrope.learn.fairness.notions`, which the help does without."""

    demographic_parity = "demographic_parity"
    equal_opportunity = "equal_opportunity"
    false_positive_rate_parity = "false_positive_rate_parity"
    equalized_odds = "equalized_odds"


Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
TextOption = Annotated[Text, typer.Option(help="What text becomes: indicators, or codes, one number a column.")]
NotionOption = Annotated[Notion, typer.Option(help="Among whom rates are compared.")]
