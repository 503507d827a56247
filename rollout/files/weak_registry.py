"""Objects of a kind that are there, known weakly: for what is to be done to all of them, in a forked process say.

A WeakSet is told of each that goes by a function in Python, which swallows an interrupt that comes in it.
"""

from __future__ import annotations

import threading
import weakref
from typing import Generic, TypeVar

T = TypeVar("T")
_FEWEST = 64


class Living(Generic[T]):
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[weakref.ref[T]] = []
        self._most = _FEWEST

    def add(self, one: T) -> None:
        """One more."""
        with self._lock:
            if len(self._known) >= self._most:
                self._known = [known for known in self._known if known() is not None]
                self._most = max(_FEWEST, 2 * len(self._known))
            self._known.append(weakref.ref(one))

    def now(self) -> list[T]:
        """All that are there."""
        with self._lock:
            known = list(self._known)
        return [one for each in known if (one := each()) is not None]

    def in_child(self) -> list[T]:
        """All that were there when this process was forked, whatever other threads held then. In that process only."""
        self._lock = threading.Lock()
        return [one for known in self._known if (one := known()) is not None]
