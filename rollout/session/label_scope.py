"""The label in force: what a block of the program says of the records that it writes.

A context variable holds a chain of frames, the innermost first: one for each `label` block, one for each turn that has
a label of its own. Threads begin without any, asyncio tasks with those of who made them, so that what runs at once does
not mix. A turn's frame counts for records of its own log alone, and only while the turn is open.

From the outside in: the log's label, then the frames, then what a record is given. A turn that is written from outside
of its block (by another task, say) has its own label in place of the frames that were around it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping

from rollout.format import labels
from rollout.format.labels import Label


class Frame:
    """What is said at one place. `turn`: the id of the open turn that says it, None for a `label` block."""

    __slots__ = ("is_over", "label", "outer", "turn")

    def __init__(self, label: Label, outer: Frame | None, turn: str | None) -> None:
        self.label, self.outer, self.turn = label, outer, turn
        self.is_over = False


_innermost: contextvars.ContextVar[Frame | None] = contextvars.ContextVar("rollout_label", default=None)
innermost = _innermost.get
"""The innermost frame here; None if nothing is said."""


@contextlib.contextmanager
def _labelling(label: Label) -> Iterator[Label]:
    frame = enter(label)
    try:
        yield in_force(labels.UNLABELLED)
    finally:
        leave(frame)


def label(
    session_id: str | None = None, tags: Mapping[str, str] | None = None
) -> contextlib.AbstractContextManager[Label]:
    """Everything that the `with` block writes has this label, in whatever log; gives what the blocks here say together.

    Inside of another one the session_id that is said here counts, and each tag. UsageError for what
    `check_session_id` refuses, tags that are not strings, a tag session_id that disagrees with the session_id.
    """
    return _labelling(labels.label(session_id, tags))


def enter(label: Label, turn: str | None = None) -> Frame:
    """A frame inside of those that are here. UsageError if they disagree."""
    outer = innermost()
    while outer is not None and outer.is_over:
        outer = outer.outer
    frame = Frame(label, outer, turn)
    in_force(labels.UNLABELLED, turn, frame)
    _innermost.set(frame)
    return frame


def leave(frame: Frame) -> None:
    """Takes the frame away, here if it is here, and everywhere if it is a turn's. Can be repeated."""
    frame.is_over = frame.turn is not None
    found = innermost()
    if frame.turn is not None and found is not frame:
        return  # turns that overlap: the inner one goes on
    while found is not None and found is not frame:
        found = found.outer
    if found is not None:
        _innermost.set(frame.outer)


def in_force(log: Label, turn: str | None = None, frame: Frame | None = None) -> Label:
    """The label here of records of a log; `turn` is the id of its open one. UsageError if what is said disagrees."""
    return _inside(log, frame or innermost(), None, turn)


def in_turn(label: Label, around: Frame | None) -> Label:
    """The label here of records of a turn, which has `label` itself; `around` was innermost where it began."""
    return _inside(label, innermost(), around, None)


def _inside(label: Label, frame: Frame | None, around: Frame | None, turn: str | None) -> Label:
    """`label`, and in it what the frames say, but for those that are around."""
    said, outside = [], set(_chain(around))
    for found in _chain(frame):
        if found in outside:
            break
        if found.turn is None or (found.turn == turn and not found.is_over):
            said.append(found.label)
    for inner in reversed(said):
        label = label.around(inner)
    return label


def _chain(frame: Frame | None) -> Iterator[Frame]:
    while frame is not None:
        yield frame
        frame = frame.outer
