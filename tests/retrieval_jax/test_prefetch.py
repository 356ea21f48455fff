"""Items taken ahead: their order, how many, the end, errors."""

import itertools

import pytest

from retrieval_jax.prefetch import taken_ahead


class Source:
    """Counts from 0, remembers how far; ends, or fails, at a number."""

    def __init__(self, end=None, error=None):
        self.taken, self.end, self.error = 0, end, error

    def __iter__(self):
        return self

    def __next__(self):
        if self.taken == self.end:
            raise self.error or StopIteration
        self.taken += 1
        return self.taken - 1


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_order_is_kept_and_so_many_are_held(count):
    source = Source()
    ahead = taken_ahead(source, count)
    assert source.taken == 0  # nothing before the first is asked for
    for expected, item in enumerate(itertools.islice(ahead, 10)):
        assert item == expected
        assert source.taken == item + 1 + count


@pytest.mark.parametrize("count", [0, 2, 5])
@pytest.mark.parametrize("end", [0, 1, 3])
def test_all_are_given_before_the_end(end, count):
    assert list(taken_ahead(Source(end), count)) == list(range(end))


@pytest.mark.parametrize("count", [0, 2, 5])
def test_an_error_comes_after_the_items_before_it(count):
    ahead = taken_ahead(Source(3, OSError("row 3 cannot be read")), count)
    assert list(itertools.islice(ahead, 3)) == [0, 1, 2]
    with pytest.raises(OSError, match="row 3 cannot be read"):
        next(ahead)
