"""Rows of a data set that tensorflow-datasets has prepared, read without TensorFlow."""

from collections.abc import Iterator
from typing import Any, cast

import tensorflow_datasets as tfds

_ROWS_PER_READ = 1000


def prepared_rows(builder: tfds.core.DatasetBuilder, split: str) -> Iterator[dict[str, Any]]:
    """The rows of a split, in their order; none for a split that was empty."""
    if split not in (builder.info.splits or ()):
        return
    source = cast(Any, builder).as_data_source(split)
    # In bulk: several times faster than one by one.
    for start in range(0, len(source), _ROWS_PER_READ):
        yield from source.__getitems__(range(start, min(start + _ROWS_PER_READ, len(source))))
