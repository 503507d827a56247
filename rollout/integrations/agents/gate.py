"""Who uses a session, and the end of it: calls go through a gate that is closed once and for all.

A call that is through when the gate is closed is not disturbed; the last one out lets go of what they used. Closing
never waits, so that it can be done on an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rollout.errors import Closed


class SessionClosed(Closed, RuntimeError):
    """The session is closed. A RuntimeError too, as a closed session of the SDK raises."""


class Gate:
    """Open until `close`; a call is made inside of `with`, and SessionClosed if it is not open.

    `let_go` is called once, when no call is inside any more. `name` is what is closed then.
    """

    def __init__(self, name: str, let_go: Callable[[], None]) -> None:
        self._name, self._let_go = name, let_go
        self._guard = threading.Lock()  # of the two below
        self._inside = 0
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether calls are refused."""
        return self._closed

    def __enter__(self) -> None:
        with self._guard:
            if self._closed:
                raise SessionClosed(f"{self._name} is closed", remedy="make a new one")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._inside -= 1
            is_over = self._is_over()
        if is_over:
            self._let_go()

    def close(self) -> None:
        """Refuses all later calls. Once is enough, twice is fine."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            is_over = self._is_over()
        if is_over:
            self._let_go()

    def _is_over(self) -> bool:
        return self._closed and not self._inside
