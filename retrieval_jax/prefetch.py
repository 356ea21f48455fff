"""Items taken from an iterator some steps before they are needed."""

from collections import deque
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


def taken_ahead(items: Iterator[T], count: int) -> Iterator[T]:
    """Gives `items` in their order, each only after `count` more have been taken.

    For items whose making starts work that goes on by itself, as transfers to devices do: it is
    then done while earlier items are used, so no thread is needed.

    An error of `items` comes where it would without: after all items before it have been given.

    Args:
        items: what is taken from; made on the calling thread.
        count: how many are held beside the one in use; 0 takes each when it is asked for.
    """
    taken: deque[T] = deque()
    stopped_by: Exception | None = None
    while True:
        while stopped_by is None and len(taken) <= count:
            try:
                taken.append(next(items))
            except Exception as error:  # the end of the data (`StopIteration`) among them
                stopped_by = error
        if not taken:
            break
        yield taken.popleft()
    if stopped_by is not None and not isinstance(stopped_by, StopIteration):
        raise stopped_by
