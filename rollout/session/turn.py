"""A turn that is being written: task_started, turn_context, items and events, task_complete.

Its end is on the disk when the `with` block is left (unless the durability is NONE). An exception in the block, of
whatever kind, writes the `<turn_aborted>` message and turn_aborted instead, and goes on. The methods can be called
from several threads; the `async with` form gives an `AsyncTurn`, which does the same in threads, so that the loop never
waits for a disk. Calls of that which wait at the same time are carried out in one go, and put on the disk by one sync.

A turn that nobody is going to end any more, because a signal came just then (see `block_exit`), is closed as
interrupted before anything else is written. One that is entered by hand is held by whoever has the object.

A turn has its label from its beginning, and all that stands in it has the same.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from rollout.dialects.codex import encoder
from rollout.dialects.codex.encoder import ABORT_REASONS, AnyItem, Part, turn_aborted
from rollout.errors import Closed, RolloutError, UsageError
from rollout.format.labels import Label
from rollout.session.block_exit import AwaitedBlockExit, BlockExit
from rollout.session.recorder import OpenedTurn, Recorder

if TYPE_CHECKING:
    from rollout.session.asyncio_bridge import Doing

T = TypeVar("T")
KEEP = "keep"
"""The context of the turn itself (see `OpenTurn.compact`)."""


class OpenTurn:
    """One turn, made by `SessionLog.turn`, open inside its `with` block. Offsets that are returned are bytes."""

    id: str
    label: Label
    """What its lines have, once it is open."""

    def __init__(
        self,
        recorder: Recorder,
        context: Mapping[str, Any] | None,
        model_context_window: int | None,
        label: Label,
    ) -> None:
        self.id = recorder.ports.new_id()
        self.label = label
        self._recorder = recorder
        self._begin_parts = encoder.turn_started(self.id, context, model_context_window)
        self._awaited: AsyncTurn | None = None
        self._holder: Callable[[], object] = weakref.ref(self)
        self._has_begun = False
        self._abort_reason: str | None = None  # once an abort was asked for

    def __repr__(self) -> str:
        state = "open" if self._recorder.is_open(self.id) else "closed" if self._has_begun else "new"
        return f"<{state} turn {self.id}>"

    def __enter__(self) -> OpenTurn:
        try:
            self.begin()
            return self
        except BaseException as error:
            self.interrupt(error)
            raise

    def begin(self) -> None:
        """Writes the beginning. Whoever calls it interrupts the turn behind an exception."""
        if self._has_begun:
            raise UsageError(f"turn {self.id} has been entered before", remedy="make a new one with log.turn()")
        self._has_begun = True
        try:
            self.label = self._recorder.begin(self.id, self.label, self._begin_parts, self._holder)
        except UsageError:
            self._has_begun = False  # nothing was written
            raise

    def held_by(self, holder: object) -> None:
        """As long as that is there, somebody is going to end this turn."""
        if not self._has_begun:
            self._holder = weakref.ref(holder)

    def held_in(self, is_over: Callable[[], bool]) -> None:
        """And as long as that is not over."""
        holder = self._holder
        self._holder = lambda: None if is_over() else holder()

    def leave(self, error: BaseException | None) -> None:
        """Ends the turn, as a `with` block does when it is left, by an exception or without."""
        if error is not None:
            self.interrupt(error)
            return
        try:
            self._recorder.write_in_turn(self.id, self._completed, atomic=True)
        except BaseException as problem:
            was_ended = self._abort_reason is not None or self._recorder.writer.is_closed
            if isinstance(problem, Closed) and was_ended and not self._recorder.is_open(self.id):
                return
            self.interrupt(problem)  # a turn that could not be ended does not stay open
            raise

    @BlockExit
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        self.leave(error)

    def _completed(self, turn: OpenedTurn) -> tuple[Sequence[Part], None]:
        if self._abort_reason is not None:
            return turn_aborted(self.id, self._abort_reason), None
        return encoder.turn_completed(self.id, turn.last_message), None

    async def __aenter__(self) -> AsyncTurn:
        self._awaited = AsyncTurn(self, self._recorder)
        await self._awaited.enter()
        return self._awaited

    @AwaitedBlockExit
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        if self._awaited is not None:
            await self._awaited.leave(error)

    def user(self, text: str, images: Iterable[str] = (), *, expected_end: int | None = None) -> int:
        """A user's message (the first one, or one that steers the running turn); `images` are URLs, data: too."""
        parts = encoder.user_message(text, list(images))
        return self._recorder.write_in_turn(self.id, parts, expected_end=expected_end)

    def append(self, item: AnyItem, *, expected_end: int | None = None) -> int:
        """One item as the model API has it, as a mapping or as its JSON in bytes; the offset behind it.

        Each lone surrogate in it, as `os.fsdecode` makes of a byte that is no text, is written as U+FFFD.
        An assistant's message gets an agent_message event, each plan in it an item_completed event.

        Raises:
            RecordError: It is no item that a model could be sent; nothing was written.
            Conflict: The log does not end at `expected_end`; nothing was written.
            Closed: The turn is not open.
        """
        encoded = encoder.encode_item(item)
        is_told = encoded[2] == "assistant"  # most are not
        parts = functools.partial(self._said, [encoded]) if is_told else (encoder.item(encoded[0]),)
        return self._recorder.write_in_turn(self.id, parts, expected_end=expected_end)

    def append_all(self, items: Iterable[AnyItem], *, expected_end: int | None = None) -> int:
        """Items as one batch: after a crash all of them are there or none is."""
        parts = functools.partial(self._said, [encoder.encode_item(item) for item in items])
        return self._recorder.write_in_turn(self.id, parts, expected_end=expected_end, atomic=True)

    def event(self, type: str, /, keys: Mapping[str, Any] | None = None, **more: Any) -> int:
        """An event_msg of any type but those that the log writes itself, with the keys of both in its payload."""
        return self._recorder.write_in_turn(self.id, [encoder.event_record(type, {**(keys or {}), **more})])

    def compact(
        self,
        replacement_history: Iterable[AnyItem],
        message: str = "",
        *,
        context: Mapping[str, Any] | str | None = KEEP,
    ) -> int:
        """A compaction in mid-turn: from here on the history is `replacement_history`.

        The turn's context is written again behind it, or another one, as the model is to know it from the
        replacement (`context_updates(None, …)`); with None it is not, and the next turn tells it anew (S4, S8).
        """
        parts = [encoder.compaction(replacement_history, message)]
        if context is KEEP:
            parts += self._begin_parts[1:]
        elif context is not None:
            parts.append(encoder.turn_context(self.id, context))
        parts.append(encoder.compaction_told())
        return self._recorder.write_in_turn(self.id, parts, atomic=True)

    def abort(self, reason: str = "interrupted") -> None:
        """Ends the turn as interrupted, replaced or review_ended; leaving the block does nothing more then."""
        if reason not in ABORT_REASONS:
            raise UsageError(f"{reason!r} is no reason of an abort", remedy=f"give one of {', '.join(ABORT_REASONS)}")

        def aborted(turn: OpenedTurn) -> tuple[Sequence[Part], None]:
            self._abort_reason = reason  # however often this is interrupted: that is how the turn ends
            return self._completed(turn)

        self._recorder.write_in_turn(self.id, aborted, atomic=True)

    def commit(self) -> int:
        """Returns when all that was appended is on the disk: so many bytes from the start."""
        return self._recorder.writer.commit()

    def _said(
        self, items: Sequence[tuple[bytes, str, str | None]], turn: OpenedTurn
    ) -> tuple[Sequence[Part], OpenedTurn]:
        """The records of items and of what they tell, and the turn behind them."""
        parts: list[Part] = []
        for payload, kind, role in items:
            if role == "assistant" and kind == "message":
                told, text, plans = encoder.assistant_message(payload, self._recorder.thread, self.id, turn.plans)
                parts += told
                turn = turn._replace(last_message=text or turn.last_message, plans=plans)
            else:
                parts.append(encoder.item(payload))
        return parts, turn

    def interrupt(self, error: BaseException) -> None:
        """Closes the turn for `error`, which is on its way and is not to be replaced by what goes wrong here."""
        try:
            if self._recorder.is_open(self.id):
                reason = self._abort_reason or "interrupted"
                self._recorder.write_in_turn(self.id, lambda _: (turn_aborted(self.id, reason), None), atomic=True)
        except RolloutError as problem:
            error.add_note(f"the turn could not be closed as interrupted: {problem}")
            self._recorder.forget(self.id)


_P = ParamSpec("_P")


def _awaited(
    method: Callable[Concatenate[OpenTurn, _P], T],
) -> Callable[Concatenate[AsyncTurn, _P], Coroutine[Any, Any, T]]:
    """The same method to be awaited."""

    @functools.wraps(method)
    async def awaited(turn: AsyncTurn, /, *args: _P.args, **keys: _P.kwargs) -> T:
        return await turn._run(method, *args, **keys)

    return awaited


class AsyncTurn:
    """An open turn whose methods are awaited. See `OpenTurn`.

    A call that is cancelled is waited for first: it is done then, and nothing that comes next overtakes it.
    """

    id: str

    def __init__(self, turn: OpenTurn, recorder: Recorder) -> None:
        from rollout.session.asyncio_bridge import Lane  # noqa: PLC0415  # who has no such turn need not wait for asyncio

        self.id, self._turn, self._recorder = turn.id, turn, recorder
        self._lane = Lane(self._acknowledge)
        turn.held_in(self._lane.is_over)

    @property
    def label(self) -> Label:
        """See `OpenTurn.label`."""
        return self._turn.label

    user = _awaited(OpenTurn.user)
    append = _awaited(OpenTurn.append)
    append_all = _awaited(OpenTurn.append_all)
    event = _awaited(OpenTurn.event)
    compact = _awaited(OpenTurn.compact)
    abort = _awaited(OpenTurn.abort)

    async def commit(self) -> int:
        """See `OpenTurn.commit`."""
        end: int = await self._lane.run(_only_commit)
        return end

    async def enter(self) -> None:
        """Begins the turn."""
        try:
            await self._run(OpenTurn.begin)
        except BaseException as error:  # cancelled, say, when the turn had begun
            await self.leave(error)
            raise

    async def leave(self, error: BaseException | None) -> None:
        """Ends the turn."""
        if isinstance(error, GeneratorExit):  # the loop is gone: nothing can be awaited any more
            self._lane.do_now(functools.partial(self._turn.interrupt, error))
        else:
            await self._run(OpenTurn.leave, error)

    async def _run(self, method: Callable[Concatenate[OpenTurn, _P], T], *args: _P.args, **keys: _P.kwargs) -> T:
        """In a thread, but in the context of the task: the label in force is that of who calls."""
        result: T = await self._lane.run(
            functools.partial(self._recorder.unacknowledged, method, self._turn, *args, **keys)
        )
        return result

    def _acknowledge(self, batch: Sequence[Doing[Any]]) -> None:
        """One sync at most for those that only append and those that only commit."""
        commits = [doing for doing in batch if doing.work is _only_commit]
        try:
            if commits:
                durable_end = self._recorder.writer.commit()
                for doing in commits:
                    doing.found = durable_end
            else:
                self._recorder.acknowledge()
        except BaseException as error:  # noqa: BLE001  # it is raised where the outcome is waited for
            for doing in batch:
                doing.error = doing.error or error


def _only_commit() -> None:
    """What is asked for that appends nothing."""
