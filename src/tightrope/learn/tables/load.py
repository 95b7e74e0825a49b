"""Whichever classifier of tables a folder holds."""

from pathlib import Path

from tightrope.learn.tables import constrained
from tightrope.learn.tables.classifier import TableClassifier
from tightrope.learn.tables.constrained import ConstrainedTable


def load_classifier(folder: str | Path) -> TableClassifier | ConstrainedTable:
    """Read a folder of `tightrope fit` or `tightrope classify`; one that was changed or is something else is refused."""
    kind = ConstrainedTable if constrained.FOLDER.meaning_in(Path(folder)).exists() else TableClassifier
    return kind.load(folder)
