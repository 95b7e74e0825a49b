"""Names as text: what users call groups, labels, columns and constraints is shown as it is, and nothing of it acts.

A name may look like markup, mathematics or a formula, and may hold characters that steer a terminal or turn the direction of
writing. There is one function for each medium; SVG is part of HTML.
"""

import html
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

_ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that act instead of being shown: controls but for the end of a line, the marks by which the
direction of writing is turned (Unicode's Bidi_Control), and halves of characters, which no file can hold."""

_FORMULA = ("=", "+", "-", "@")
"""How cells begin that a spreadsheet computes (OWASP, "CSV injection"); tabs and carriage returns are visible already."""


def visible(said: object) -> str:
    """Text in which every character is shown: one that would act is written as Python and JSON write it.

    Example:
        >>> print(visible("a\\x1b[31mb"))
        a\\u001b[31mb
    """
    return _ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", str(said))


def in_html(said: object) -> str:
    """As a part of HTML or SVG, in an element or in the value of an attribute.

    Example:
        >>> in_html("<b> & co")
        '&lt;b&gt; &amp; co'
    """
    return html.escape(visible(said))


def in_terminal(said: object) -> "Text":
    """As a sentence, or a cell of a table, that rich prints: brackets are no markup, and :words: no pictures.

    Example:
        >>> print(in_terminal("[/b]"))
        [/b]
    """
    from rich.text import Text

    return Text(visible(said))


def in_picture(said: object) -> str:
    """As a label of matplotlib: dollars begin no mathematics, and a name with a first underscore is in the legend, too.

    Example:
        >>> print(in_picture("$x$"))
        \\$x\\$
    """
    shown = visible(said).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def in_csv(value: Any) -> Any:
    """As a cell of a CSV file: text that a spreadsheet would compute is preceded by an apostrophe; numbers stay numbers.

    Example:
        >>> in_csv("=cmd()"), in_csv("-1"), in_csv(-1)
        ("'=cmd()", '-1', -1)
    """
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if shown.lstrip(" ").startswith(_FORMULA) and not _is_number(shown) else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
