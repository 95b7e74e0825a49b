"""Tables and columns of Apache Arrow, which pandas reads and scikit-learn does not."""

from typing import Any


def from_arrow(given: Any) -> Any:
    """A table or a column of pyarrow as pandas has it; anything else as it is.

    Example:
        >>> from_arrow([1, 2])
        [1, 2]
        >>> import pyarrow as pa
        >>> from_arrow(pa.table({"age": [31, 52]})).columns.tolist()
        ['age']
    """
    return given.to_pandas() if type(given).__module__.partition(".")[0] == "pyarrow" else given
