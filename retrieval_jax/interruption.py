"""Stopping a run cleanly when its process is told to go (a time limit, a preempted machine)."""

import signal
import threading
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR2)


class InterruptedRunError(SystemExit):
    """Training was told to stop, and saved if it has a folder; ends with 128 + the signal."""

    def __init__(self, received: signal.Signals, step: int) -> None:
        super().__init__(128 + received)
        self.received, self.step = received, step

    def __str__(self) -> str:
        """What happened, and how to go on."""
        return (
            f"stopped by {self.received.name} after step {self.step}; the same command goes on from"
            " what the run folder holds"
        )


class StopRequest:
    """Notes SIGTERM and SIGUSR2 instead of dying of them; a context manager.

    Outside the main thread, where Python allows no handlers, it notes nothing.

    Attributes:
        received: the signal that came, None so far.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.received = signal.Signals(number)

    def __enter__(self) -> "StopRequest":
        """Installs the handlers."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Puts the former handlers back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]
