"""Who uses a session, and the end of it: calls go through a gate that is closed once and for all.

A call that is through when the gate is closed is not disturbed; the last one out lets go of what they used. Closing
never waits, so that it can be done on an event loop. A call that is interrupted goes out by one call into C.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from rollout.errors import Closed

T = TypeVar("T")


class SessionClosed(Closed, RuntimeError):
    """The session is closed. A RuntimeError too, as a closed session of the SDK raises."""


class Gate:
    """Open until `close`; SessionClosed for a call that comes later.

    `let_go` is called when no call is inside any more; more than once if somebody closes again. `name` is what is
    closed then.
    """

    def __init__(self, name: str, let_go: Callable[[], None]) -> None:
        self._name, self._let_go = name, let_go
        self._guard = threading.Lock()  # of those who come in, and of closing
        self._inside: set[object] = set()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether calls are refused."""
        return self._closed

    def through(self, call: Callable[[], T]) -> T:
        """What `call` returns."""
        ticket = object()
        try:
            with self._guard:
                if self._closed:
                    raise SessionClosed(f"{self._name} is closed", remedy="make a new one")
                self._inside.add(ticket)
            return call()
        finally:
            try:
                self._inside.discard(ticket)
            finally:
                if self._closed and not self._inside:
                    self._let_go()

    def close(self) -> None:
        """Refuses all later calls. Once is enough; again, it makes sure that everything was let go of."""
        with self._guard:
            self._closed = True
            is_over = not self._inside
        if is_over:
            self._let_go()
