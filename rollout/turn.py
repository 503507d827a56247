"""A turn that is being written: task_started, turn_context, items and events, task_complete.

Its end is on the disk when the `with` block is left (unless the durability is NONE). An exception in the block, of
whatever kind, writes the `<turn_aborted>` message and turn_aborted instead, and goes on. The methods can be called
from several threads; the `async with` form gives an `AsyncTurn`, which does the same in threads of its own.

A turn has its label from its beginning; it is that of everything that the turn writes on its own. What a method is
asked to write can have another one (see `labelling`), and what is written along with it has the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from rollout import encoding, labelling
from rollout.core import labels
from rollout.core.context import texts_of
from rollout.core.labels import Label
from rollout.core.plans import split_plans
from rollout.encoding import AnyItem, Part
from rollout.errors import Closed, RecordError, RolloutError, UsageError
from rollout.labelling import innermost
from rollout.recorder import Recorder, abort

if TYPE_CHECKING:
    from rollout.async_turn import AsyncTurn

Tags: TypeAlias = "Mapping[str, str] | None"

KEEP = "keep"
"""The context of the turn itself (see `OpenTurn.compact`)."""
_REASONS = ("interrupted", "replaced", "review_ended")


class TurnContext(Mapping[str, Any]):
    """The settings that a turn runs with: the payload of its turn_context, a mapping.

    Only `model` is needed; any other key of the payload, known or not, is kept. (Codex reads it back only with cwd,
    approval_policy, sandbox_policy and summary.)
    """

    __slots__ = ("_keys",)

    def __init__(
        self,
        *,
        model: str,
        cwd: str | os.PathLike[str] | None = None,
        approval_policy: str | Mapping[str, Any] | None = None,
        sandbox_policy: Mapping[str, Any] | None = None,
        effort: str | None = None,
        summary: str | None = None,
        personality: str | None = None,
        collaboration_mode: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        given = {
            "cwd": None if cwd is None else os.fspath(cwd),
            "approval_policy": approval_policy,
            "sandbox_policy": sandbox_policy,
            "model": model,
            "personality": personality,
            "collaboration_mode": collaboration_mode,
            "effort": effort,
            "summary": summary,
        }
        self._keys = {**{key: value for key, value in given.items() if value is not None}, **more}

    def __getitem__(self, key: str) -> Any:
        return self._keys[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"TurnContext({', '.join(f'{key}={value!r}' for key, value in self._keys.items())})"


class OpenTurn:
    """One turn, made by `Rollout.turn`, open inside its `with` block. Offsets that are returned are bytes.

    `session_id` and `tags` of a method are the label of what it writes, inside of that which is in force there.
    """

    def __init__(
        self,
        recorder: Recorder,
        context: Mapping[str, Any] | None,
        model_context_window: int | None,
        label: Label,
    ) -> None:
        self.id = recorder.ports.new_id()
        self.label = self._own_label = label
        """What the turn's own lines have, once it is open."""
        self._around: labelling.Frame | None = None  # innermost in the block
        self._recorder = recorder
        self._state = "new"  # then "open", then "closed" or, on request, "aborted"
        self._context = None if context is None else _context_part(self.id, context)
        self._started = encoding.event(
            "task_started",
            {
                "turn_id": self.id,
                "model_context_window": model_context_window,
                "collaboration_mode_kind": _mode_of(context or {}),
            },
        )
        self._awaited: AsyncTurn | None = None
        self._last_message: str | None = None
        self._plan_count = 0

    def __repr__(self) -> str:
        return f"<{self._state} turn {self.id}>"

    def __enter__(self) -> OpenTurn:
        self.begin()
        self._begin_labelling()
        return self

    def begin(self) -> None:
        """Writes the beginning, as `with` does."""
        try:
            with self._recorder.lock:
                if self._state != "new":
                    raise UsageError(f"turn {self.id} has been entered before", remedy="make a new one with log.turn()")
                self._recorder.refuse_open_turn("a turn cannot begin")
                label = self._recorder.label_here(self._own_label)
                self._recorder.write([self._started, *([] if self._context is None else [self._context])], label)
                self._recorder.open_turn, self._state, self.label = self, "open", label
            self._recorder.acknowledge()
        except BaseException as error:
            self.interrupt(error)
            raise

    def _begin_labelling(self) -> None:
        self._around = labelling.enter(self._own_label, self) if self._own_label else labelling.innermost()

    def _end_labelling(self) -> None:
        if self._around is not None and self._around.turn is self:
            labelling.leave(self._around)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.finish(error)
        finally:
            self._end_labelling()

    def finish(self, error: BaseException | None) -> None:
        """Writes the end, as `with` does when it is left, by an exception or without."""
        if error is not None:
            self.interrupt(error)
        elif self._state != "aborted":
            keys = {"turn_id": self.id, "last_agent_message": self._last_message}
            try:
                self._end([encoding.event("task_complete", keys)])
            except BaseException as problem:
                self.interrupt(problem)  # a turn that could not be ended does not stay open
                raise

    async def __aenter__(self) -> AsyncTurn:
        from rollout.async_turn import AsyncTurn  # noqa: PLC0415  # who only reads logs need not wait for asyncio

        self._awaited = AsyncTurn(self, self._recorder)
        await self._awaited.enter()
        self._begin_labelling()
        return self._awaited

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if self._awaited is not None:
                await self._awaited.leave(error)
        finally:
            self._end_labelling()

    def user(
        self,
        text: str,
        images: Iterable[str] = (),
        *,
        expected_end: int | None = None,
        session_id: str | None = None,
        tags: Tags = None,
    ) -> int:
        """A user's message (the first one, or one that steers the running turn); `images` are URLs, data: too."""
        urls = list(images)
        content = [{"type": "input_text", "text": text}, *({"type": "input_image", "image_url": url} for url in urls)]
        item = Part("response_item", encoding.encode({"type": "message", "role": "user", "content": content}))
        keys = {"message": text, "images": urls, "local_images": [], "text_elements": []}
        parts = [item, encoding.event("user_message", keys)]
        return self._write(parts, self._label_here(session_id, tags), expected_end=expected_end)

    def append(
        self, item: AnyItem, *, expected_end: int | None = None, session_id: str | None = None, tags: Tags = None
    ) -> int:
        """One item as the model API has it, as a mapping or as its JSON in bytes; the offset behind it.

        Each lone surrogate in it, as `os.fsdecode` makes of a byte that is no text, is written as U+FFFD.
        An assistant's message gets an agent_message event, each plan in it an item_completed event.
        RecordError, or Conflict if the log does not end at `expected_end`: nothing was written.
        """
        encoded = encoding.encode_item(item)
        in_haste = session_id is None and tags is None and innermost() is self._around  # most are
        label = self.label if in_haste else self._label_here(session_id, tags)
        if encoded[2] != "assistant":  # most are not
            return self._write((Part("response_item", encoded[0]),), label, expected_end=expected_end)
        return self._append([encoded], label, expected_end, atomic=False)

    def append_all(
        self,
        items: Iterable[AnyItem],
        *,
        expected_end: int | None = None,
        session_id: str | None = None,
        tags: Tags = None,
    ) -> int:
        """Items as one batch: after a crash all of them are there or none is."""
        encoded = [encoding.encode_item(item) for item in items]
        return self._append(encoded, self._label_here(session_id, tags), expected_end, atomic=True)

    def event(
        self,
        type: str,
        /,
        keys: Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
        tags: Tags = None,
        **more: Any,
    ) -> int:
        """An event_msg of any type but those that the log writes itself.

        `session_id` and `tags` are the label; a key of the payload that is called so goes into `keys`.
        """
        part = encoding.record("event_msg", {"type": type, **(keys or {}), **more})
        return self._write([part], self._label_here(session_id, tags))

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
        again = self._context if context is KEEP else _context_part(self.id, context) if context is not None else None
        parts = [compacted(replacement_history, message), *([] if again is None else [again])]
        return self._write([*parts, encoding.event("context_compacted", {})], self._label_here(), atomic=True)

    def abort(self, reason: str = "interrupted") -> None:
        """Ends the turn as interrupted, replaced or review_ended; leaving the block does nothing more then."""
        if reason not in _REASONS:
            raise UsageError(f"{reason!r} is no reason of an abort", remedy=f"give one of {', '.join(_REASONS)}")
        self._end(abort(self.id, reason), "aborted")

    def commit(self) -> int:
        """Returns when all that was appended is on the disk: so many bytes from the start."""
        return self._recorder.writer.commit()

    def _label_here(self, session_id: str | None = None, tags: Tags = None) -> Label:
        """The label of what is written from here. UsageError."""
        label = self.label if innermost() is self._around else labelling.in_turn(self.label, self._around)
        return label if session_id is None and tags is None else label.around(labels.label(session_id, tags))

    def _append(
        self, items: Sequence[tuple[bytes, str, str | None]], label: Label, expected_end: int | None, *, atomic: bool
    ) -> int:
        with self._recorder.lock:
            last, plans = self._last_message, self._plan_count
            parts = []
            for payload, kind, role in items:
                if role == "assistant" and kind == "message":
                    text, found = split_plans("".join(texts_of(payload) or ()))
                    last = text or last
                    parts += _said(text, payload) if text else []
                    parts += [self._plan(plan, plans + n) for n, plan in enumerate(found, 1)]
                    plans += len(found)
                parts.append(Part("response_item", payload))
            end = self._put(parts, label, expected_end, atomic)
            self._last_message, self._plan_count = last, plans
        self._recorder.acknowledge()
        return end

    def _write(
        self, parts: Sequence[Part], label: Label, *, expected_end: int | None = None, atomic: bool = False
    ) -> int:
        with self._recorder.lock:
            end = self._put(parts, label, expected_end, atomic)
        self._recorder.acknowledge()
        return end

    def _put(self, parts: Sequence[Part], label: Label, expected_end: int | None, atomic: bool) -> int:
        if self._recorder.open_turn is not self:
            what = "is not open yet; use it in a with block" if self._state == "new" else "is closed"
            raise Closed(f"turn {self.id} {what}", path=self._recorder.writer.path)
        return self._recorder.write(parts, label, expected_end=expected_end, atomic=atomic)

    def _plan(self, text: str, number: int) -> Part:
        name = f"{self.id}-plan" if number == 1 else f"{self.id}-plan-{number}"
        keys = {"thread_id": self._recorder.thread, "turn_id": self.id}
        return encoding.event("item_completed", {**keys, "item": {"type": "Plan", "id": name, "text": text}})

    def _end(self, parts: Sequence[Part], state: str = "closed") -> None:
        with self._recorder.lock:
            self._put(parts, self.label, None, atomic=len(parts) > 1)
            self._recorder.open_turn, self._state = None, state
        self._recorder.writer.end_turn()

    def interrupt(self, error: BaseException) -> None:
        """Closes the turn for `error`, which is on its way and is not to be replaced by what goes wrong here."""
        if self._recorder.open_turn is not self:
            return
        try:
            self._end(abort(self.id))
        except RolloutError as problem:
            error.add_note(f"the turn could not be closed as interrupted: {problem}")
            with self._recorder.lock:
                if self._recorder.open_turn is self:
                    self._recorder.open_turn, self._state = None, "closed"


def compacted(replacement_history: Iterable[AnyItem], message: str) -> Part:
    """The record of a compaction."""
    items = encoding.encode_items(replacement_history)
    return Part("compacted", encoding.encode({"message": message, "replacement_history": items}))


def _context_part(turn_id: str, context: Mapping[str, Any] | str) -> Part:
    if not isinstance(context, Mapping) or not isinstance(context.get("model"), str):
        raise RecordError("a turn_context needs a model", remedy="give a TurnContext")
    keys = {key: value for key, value in context.items() if key != "turn_id"}
    return Part("turn_context", encoding.encode({"turn_id": turn_id, **keys}))


def _mode_of(context: Mapping[str, Any]) -> str:
    mode = context.get("collaboration_mode")
    kind = mode.get("mode") if isinstance(mode, Mapping) else mode
    return kind if isinstance(kind, str) else "default"


class _Phase(msgspec.Struct):
    phase: str | None = None


def _said(text: str, payload: bytes) -> list[Part]:
    try:
        phase = msgspec.json.decode(payload, type=_Phase).phase
    except msgspec.ValidationError:
        phase = None
    return [encoding.event("agent_message", {"message": text, "phase": phase, "memory_citation": None})]
