"""What users give, before it is read: tables of Apache Arrow become those of pandas, and masked values are refused."""

from typing import Any

import numpy as np


def from_arrow(given: Any) -> Any:
    """A table or a column of pyarrow as pandas has it, which scikit-learn reads; anything else as it is.

    Example:
        >>> from_arrow([1, 2])
        [1, 2]
        >>> import pyarrow as pa
        >>> from_arrow(pa.table({"age": [31, 52]})).columns.tolist()
        ['age']
    """
    return given.to_pandas() if type(given).__module__.partition(".")[0] == "pyarrow" else given


def unmasked(what: str, given: Any) -> Any:
    """The data as it was given, tables of Arrow as pandas has them; refuses an array of which something is masked.

    Args:
        what: whose argument it is or what it is called, the first words of the refusal.
        given: anything.

    Example:
        >>> unmasked("X", np.ma.array([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    if not isinstance(given, np.ma.MaskedArray):
        return from_arrow(given)
    masked = int(np.ma.getmaskarray(given).sum())
    if masked:
        raise ValueError(
            f"{what} is a masked array with {masked:,} of {given.size:,} values masked; expected values everywhere. Leave "
            "out the rows that have none, or fill them in with given.filled(...)."
        )
    return given.data
