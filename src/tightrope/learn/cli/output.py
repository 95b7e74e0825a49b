"""May this place be written to? Asked before any work is done."""

import os
from pathlib import Path


def check_folder(folder: Path, force: bool) -> None:
    """Refuse a place where no model can be written, or where one would be written over without `force`."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder to write the model to.")
    if folder.is_dir() and not force and not _holds_nothing(folder):
        what = "holds a model" if _holds_model(folder) else "is not empty"
        raise ValueError(f"{folder} {what}; give another folder, or --force to write over it.")
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        raise ValueError(f"{folder} cannot be written to: {nearest} does not allow it. Give another folder.")


def _holds_nothing(folder: Path) -> bool:
    """Whether the folder is empty, or has no more than the picture of a rule that was refused."""
    found = [path.name for path in folder.iterdir()]
    if len(found) != 1:
        return not found
    from tightrope.learn.tables.classifier import FRONTIER

    return found == [FRONTIER]


def _holds_model(folder: Path) -> bool:
    from tightrope.learn.tables import classifier, constrained, ratings

    return any((folder / kind.FOLDER.arrays).exists() for kind in (classifier, constrained, ratings))


def check_file(file: Path, force: bool) -> None:
    """Refuse a file that is there already, unless `force` is given, and one in a folder that is not there."""
    if file.exists() and not force:
        raise ValueError(f"{file} is there already; give another file, or --force to write over it.")
    if not file.parent.is_dir():
        raise ValueError(f"{file} cannot be written: there is no folder {file.parent}. Make it first.")
