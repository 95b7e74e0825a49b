"""Learning aside: what an object learns takes the place of what it knew all at once, or not at all.

Ctrl-C, or any exception, may come between any two instructions. An object that changed its attributes one by one would
then be half of what it was and half of what it was to become. So it learns on a twin, and its attributes are replaced by
those of the twin in one assignment. Threads that teach one object do so one after the other: what one of two twins has
learnt would be lost.
"""

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any, TypeVar

Owner = TypeVar("Owner")

_locks: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()
_lock_of_locks = threading.RLock()


def _lock_of(owner: Any) -> Any:
    """The lock of an object; it is no attribute, because it could not be copied or pickled."""
    with _lock_of_locks:
        return _locks.setdefault(owner, threading.RLock())


def twin(owner: Owner) -> Owner:
    """Another object of the same type, with the same attributes: assigning to one does not change the other."""
    made = object.__new__(type(owner))
    vars(made).update(vars(owner))
    return made


@contextlib.contextmanager
def aside(owner: Owner, even_after: type[Exception] | tuple[()] = ()) -> Iterator[Owner]:
    """A twin to learn on. At the end of the block the owner has its attributes; after an exception it is as it was.

    What an attribute refers to is shared with the owner: the block may replace it and must not change it in place.

    Args:
        owner: an object whose attributes are in its `__dict__`.
        even_after: an exception that is a result, too: the twin's attributes are taken all the same, and it is raised.

    Example:
        >>> class Model:
        ...     score = 1
        >>> model = Model()
        >>> with aside(model) as new:
        ...     new.score = 2
        ...     model.score
        1
        >>> model.score
        2
    """
    with _lock_of(owner):
        made = twin(owner)
        try:
            yield made
        except even_after:
            owner.__dict__ = dict(vars(made))
            raise
        owner.__dict__ = dict(vars(made))
