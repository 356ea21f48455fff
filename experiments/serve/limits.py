"""What a query may cost."""

import dataclasses

from retrieval_jax.errors import check_fields


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of a query, and of what the server does at a time.

    Attributes:
        length: characters of a formula or a text.
        depth: nested groups of a formula; its trees may have three times as many levels.
        nodes: of a formula's tree.
        body: bytes of a request.
        items: formulas or texts of a request to encode.
        answers: that may be asked for.
        parse_seconds: what reading a formula may take.
        seconds: what reading a query may take, and what answering it may, waits included.
        batch: queries on the device at a time.
        gather_ms: how long the first query of a batch waits for others.
        waiting: queries that may wait for the device, and formulas for a process that reads them;
            more are told to come again.

    Raises:
        InputError: a bound of 0 or less.
    """

    length: int = 2_000
    depth: int = 60
    nodes: int = 500
    body: int = 65_536
    items: int = 16
    answers: int = 50
    parse_seconds: float = 2.0
    seconds: float = 10.0
    batch: int = 32
    gather_ms: float = 3.0
    waiting: int = 256

    def __post_init__(self) -> None:
        """Checks the fields."""
        names = [field.name for field in dataclasses.fields(self)]
        check_fields(self, names, "limits", above=0)
