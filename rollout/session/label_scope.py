"""`rollout.label`: what a block of the program says of the turns and logs that it begins.

A context variable holds the innermost block. Threads begin in none, asyncio tasks in that of who made them, so that
what runs at once does not mix.

A signal's exception can come between a block and its `__exit__`, or between any two steps of it. So what is in force is
also taken away when the callable that ends the block is gone, which `with` alone holds, and by one call into C.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Mapping

from rollout.format import labels
from rollout.format.labels import UNLABELLED, Label
from rollout.session.block_exit import BlockExit


class _Frame:
    """A block that was entered; `label`: what it and those around it say together."""

    __slots__ = ("label", "outer")

    def __init__(self, label: Label, outer: _Frame | None) -> None:
        self.label, self.outer = label, outer


class _Abandoned(weakref.ref[object]):
    """Stands in the context variable where nobody is left to leave the block: `outer` is what counts."""

    __slots__ = ("outer",)
    outer: _Frame | None


_innermost: contextvars.ContextVar[_Frame | _Abandoned | None] = contextvars.ContextVar("rollout_label", default=None)


def _current() -> _Frame | None:
    found = _innermost.get()
    return found.outer if isinstance(found, _Abandoned) else found


def in_force(log: Label = UNLABELLED) -> Label:
    """The label here of what a log with that label writes outside of turns. UsageError if what is said disagrees."""
    frame = _current()
    return log if frame is None else log.around(frame.label)


class label:  # noqa: N801  # it is called like a function, as contextlib.suppress is
    """A block whose turns, logs and records outside of turns have this label; `with` gives what all blocks say here.

    Inside of another one the session_id that is said here counts, and each tag. A turn that has begun keeps its own.

    Raises:
        UsageError: for what `check_session_id` refuses, tags that are not strings, or a tag session_id that disagrees
            with the session_id.
    """

    def __init__(self, session_id: str | None = None, tags: Mapping[str, str] | None = None) -> None:
        self._said = labels.label(session_id, tags)
        self._holder: object = None  # this object itself, unless `with` holds what leaves it
        self._frame: _Frame | None = None
        self._abandoned: _Abandoned | None = None

    def held_by(self, holder: object) -> None:
        """As long as that is there, somebody is going to leave the block."""
        if self._frame is None:
            self._holder = holder

    def __enter__(self) -> Label:
        outer = _current()
        said = self._said if outer is None else outer.label.around(self._said)
        self._abandoned = _Abandoned(self._holder or self, _innermost.set)
        self._abandoned.outer = outer  # no signal comes between the two
        self._holder = None
        self._frame = _Frame(said, outer)
        _innermost.set(self._frame)
        return said

    @BlockExit
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        found = _current()
        while found is not None and found is not self._frame:
            found = found.outer
        if found is not None:
            _innermost.set(found.outer)
        self._abandoned = self._frame = None
