"""One session: opened to write (and then locked for this writer), or to read.

What is written is appended and nothing else: rolling back and compacting too. `record` and the methods of a turn return
when the operating system has the bytes, `commit` and the end of a turn when they are on the disk. A fork refers to its
source and costs the same whatever the size of that, or (`copy`) stands alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rollout.dialects.codex import encoder
from rollout.dialects.codex.encoder import AnyItem, Part
from rollout.dialects.codex.item_events import item_events_of
from rollout.errors import NotFound, RolloutError, UsageError, WriteError
from rollout.files import fork as forks
from rollout.files import layout as homes
from rollout.files.encrypted.lines import LineCipher
from rollout.files.encrypted.reader import encryption_behind
from rollout.files.fork import Point
from rollout.files.lineage import open_path
from rollout.files.log_end import Ending, LeftOpen, ending_of
from rollout.files.port import Durability
from rollout.files.recovery import RecoveryPlan
from rollout.files.sealed.seal import standing
from rollout.files.writer import Writer, holder, open_writer
from rollout.format import labels, strict_json
from rollout.format.labels import UNLABELLED, Label
from rollout.session.environment import Ports
from rollout.session.label_scope import in_force
from rollout.session.recorder import Recorder
from rollout.session.state import At, State, extent_at, read_state
from rollout.session.turn import OpenTurn


class SessionLog:
    """A session's log, made by `Store.create`, `Store.open`, `rollout.open_log` or `fork`. Close it, or use `with`.

    `id` is the thread's, `path` the file. Safe to use from several threads. WriteError (Locked, Poisoned, Closed, …)
    for what cannot be written; after a write or a sync failed, every write raises Poisoned, and opening recovers.
    `label` is that of what it writes outside of turns: its session_meta's, or what it was opened with.
    """

    path: Path
    id: str
    label: Label
    durability: Durability

    def __init__(
        self,
        path: Path,
        thread: str,
        ports: Ports,
        durability: Durability,
        writer: Recorder | None,
        label: Label = UNLABELLED,
    ) -> None:
        self.path, self.id, self.label = path, thread, label
        self.durability = durability
        self._ports, self._writable = ports, writer

    def __repr__(self) -> str:
        return f"<Rollout {self.id} open to {'read' if self._writable is None else 'append'}: {self.path}>"

    def __fspath__(self) -> str:
        """The path: an open log is a source for everything that reads."""
        return str(self.path)

    def __enter__(self) -> SessionLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except RolloutError as problem:
            error.add_note(f"the log could not be closed: {problem}")

    def close(self) -> None:
        """Puts all on the disk (unless the durability is NONE) and gives the lock back. An open turn is interrupted."""
        if self._writable is not None:
            self._writable.close()

    @property
    def end(self) -> int:
        """Offset behind the last line that the operating system has."""
        if self._writable is None:
            return forks.newest_point(self.path, self._ports.fs).offset
        return self._writable.writer.end

    @property
    def durable_end(self) -> int:
        """So many bytes from the start are known to be on the disk."""
        return self._recorder.writer.durable_end

    @property
    def recovered(self) -> RecoveryPlan | None:
        """What was mended at the end of the file when it was opened; None for a new one."""
        return self._recorder.writer.recovered

    @property
    def kept(self) -> str | None:
        """The file beside in which opening has kept what it cut off."""
        return self._recorder.writer.kept

    @property
    def _recorder(self) -> Recorder:
        if self._writable is None:
            raise UsageError("is open to read", path=self.path, remedy='open it with mode="append"')
        return self._writable

    def turn(
        self,
        context: Mapping[str, Any] | None = None,
        *,
        model_context_window: int | None = None,
        session_id: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> OpenTurn:
        """A turn, open inside of `with` or `async with`; one at a time.

        `context` (a TurnContext, or any mapping with a model) is written as its turn_context; a turn that is not
        a regular one has none (S8). `session_id` and `tags` are the label of all that stands in it, inside of the label
        that is in force where it begins.

        Raises:
            RecordError: The context has no model, or is no JSON.
            UsageError: This is no label.
        """
        return OpenTurn(self._recorder, context, model_context_window, labels.label(session_id, tags))

    def record(self, type: str, payload: object, *, expected_end: int | None = None) -> int:
        """A record of any type, known or not, in a turn or outside; the offset behind it.

        What the log has methods for is refused. `payload` is any JSON value, or JSON in bytes; each lone surrogate in
        it is written as U+FFFD.

        Raises:
            RecordError: It is no JSON, or not what such a record is, or to be written by another method.
            Conflict: The log does not end at `expected_end`; nothing was written.
        """
        return self._recorder.write([encoder.record(type, payload)], expected_end=expected_end)

    def event(self, type: str, /, keys: Mapping[str, Any] | None = None, **more: Any) -> int:
        """An event_msg of any type but those that the log writes itself. See `OpenTurn.event`."""
        return self._recorder.write([encoder.event_record(type, {**(keys or {}), **more})])

    def compact(self, replacement_history: Iterable[AnyItem], message: str = "") -> int:
        """A compaction by hand, a turn of its own, all or nothing: the history is `replacement_history` from here on.

        The next regular turn tells the model its whole context anew (S8).
        """
        turn_id = self._ports.new_id()
        parts = [
            *encoder.turn_started(turn_id, None, None),
            encoder.compaction(replacement_history, message),
            encoder.compaction_told(),
            *encoder.turn_completed(turn_id, None),
        ]
        return self._recorder.write(parts, atomic=True, alone="the log cannot be compacted by hand")

    def rollback(self, num_turns: int) -> int:
        """Takes back the newest so many user boundaries that still stand (S2)."""
        if type(num_turns) is not int or not 1 <= num_turns < 1 << 32:
            raise UsageError(f"{num_turns!r} turns cannot be rolled back", remedy="give a number from 1 on")
        parts = [encoder.turns_rolled_back(num_turns)]
        return self._recorder.write(parts, atomic=True, alone="nothing can be rolled back")

    def remove_items(self, num_items: int) -> int:
        """Takes the newest so many items out of the history (S3), whatever turns they belong to."""
        if type(num_items) is not int or num_items < 1:
            raise UsageError(f"{num_items!r} items cannot be removed", remedy="give a number from 1 on")
        return self._recorder.write([encoder.items_removed(num_items)])

    def commit(self) -> int:
        """Returns when all that was appended is on the disk: so many bytes from the start."""
        return self._recorder.writer.commit()

    def resume_state(self) -> State:
        """The state of all that was appended so far (S1 to S5)."""
        origin = self._ports.origin(self.path, None if self._writable is None else self._writable.writer.end)
        return read_state(origin)

    def fork(
        self,
        at: At | None = None,
        *,
        copy: bool = False,
        before: bool = False,
        session_id: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> SessionLog:
        """A new thread that goes on from here, or from `at`; open for writing.

        `at` is a turn's id (as that turn ended; as it began, with `before`), the byte offset behind a line of this
        file, a `Line` of it or an `Ordinal` (behind that line). The fork refers to the file that the point is in, which
        cannot be deleted then; with `copy` it holds the lines itself. Its label is this log's, with what is said in it.

        Raises:
            NotFound: There is no such point, or the file is gone.
            UsageError: The point names nothing that can be forked, or this is no label.
            WriteError: The disk refuses.
        """
        label = in_force(self.label).around(labels.label(session_id, tags))
        if self._writable is not None:
            self._writable.writer.append([])  # raises if it is closed or poisoned
        point, ending = self._point(at, before)
        if self._writable is not None and self._writable.writer.durable_end < point.offset and point.path == self.path:
            self._writable.writer.commit()  # a fork is never on the disk before the bytes that it needs
        if self._writable is None and not copy:
            self._sync_source(point)  # who writes it, or has died writing it, may not have done so
        thread, created = self._ports.new_id(), self._ports.clock()
        path = self._ports.new_path(thread, beside=self.path)
        if copy:
            return self._fork_copy(point, path, thread, created, label)
        if ending is None:
            with self._ports.origin(point.path, point.offset).opened() as lineage:
                ending = ending_of(lineage)
        ordinal = None if ending.ordinal is None else ending.ordinal + 1
        meta = self._meta(thread, created, forks.base_at(point, ordinal))
        forks.check_found(point, path, self._ports.home or homes.home_of(path), self._ports.fs)
        child = create_log(
            path, thread, meta, created, self._ports, self.durability, ending.left_open, ordinal, label, in_passing=True
        )
        self._check_still_there(point, child)
        return child

    def _fork_copy(self, point: Point, path: Path, thread: str, created: float, label: Label) -> SessionLog:
        ports, by = self._ports, holder(self._ports.timestamp())
        head = encoder.line(self._meta(thread, created, None), created, None, label.envelope)
        with self._ports.origin(point.path, point.offset).opened() as lineage:
            keys = ports.keys.cipher()
            cipher = None if keys is None else LineCipher(keys, thread)
            lines = forks.copied(head, forks.whole(lineage), cipher=cipher)
            writer = Writer.create(ports.fs, path, lines, held_by=by, durability=self.durability, root=ports.home)
        return open_to_append(path, ports, self.durability, made_by=writer)

    def _sync_source(self, point: Point) -> None:
        try:
            with contextlib.closing(self._ports.fs.open_append(standing(self._ports.fs, point.path))) as file:
                file.sync()
            self._ports.fs.sync_dir(point.path.parent)
        except FileNotFoundError as error:
            raise NotFound("is no longer there", path=point.path, remedy="look for it by its id") from error
        except OSError as error:
            why = f"its source cannot be put on the disk: {error.strerror}"
            raise WriteError(why, path=point.path, remedy="fork it with copy=True") from error

    def _check_still_there(self, point: Point, child: SessionLog) -> None:
        """The lock keeps a log from being deleted meanwhile; one that is only read may have been."""
        if self._writable is None:
            try:
                open_path(point.path, fs=self._ports.fs).close()
            except NotFound:
                child.close()
                self._ports.fs.unlink(child.path)
                raise

    def _point(self, at: At | None, before: bool) -> tuple[Point, Ending | None]:
        """Where to fork, and how the log ends there if that is known."""
        fs = self._ports.fs
        if before and not isinstance(at, str):
            raise UsageError("only a turn has a before", path=self.path, remedy="give a turn's id")
        if at is None and self._writable is not None:
            end, ending = self._writable.ending()
            return Point(self.path, end), ending
        if at is None:
            return forks.newest_point(self.path, fs), None
        origin = self._ports.origin(self.path, self.end)
        with origin.opened() as lineage:
            segments = list(lineage)
            found = extent_at(origin, segments, at, before=before)
            return Point(Path(segments[found.segment].path or self.path), found.offset, found.ends_line), None

    def _meta(self, thread: str, created: float, base: dict[str, Any] | None) -> Part:
        """The session_meta of a fork: what the source's says, but for what is the fork's own. A copy has no `base`."""
        with contextlib.closing(open_path(self.path, fs=self._ports.fs, keys=self._ports.keys)) as opened:
            found = forks.meta_of(opened)
        return encoder.fork_session_meta(
            {} if found is None else found.payload,
            base,
            id=thread,
            forked_from=self.id,
            timestamp=encoder.timestamp(created),
            is_numbered=self._ports.keys.cipher() is not None,
        )


def create_log(
    path: Path,
    thread: str,
    meta: Part,
    created: float,
    ports: Ports,
    durability: Durability,
    left_open: LeftOpen | None = None,
    ordinal: int | None = None,
    label: Label = UNLABELLED,
    *,
    in_passing: bool = False,
) -> SessionLog:
    """A new log with its session_meta; on the disk, but `in_passing`: with the first commit then.

    Encrypted where there are keys: then its lines have numbers.
    """
    keys = ports.keys.cipher()
    cipher = None if keys is None else LineCipher(keys, thread)
    ordinal = ordinal if cipher is None else ordinal or 0
    line = encoder.line(meta, created, ordinal, label.envelope)
    if cipher is not None:
        line = cipher.head(line, ordinal or 0)
    by = holder(ports.timestamp())
    writer = Writer.create(
        ports.fs, path, [line], held_by=by, durability=durability, root=ports.home, in_passing=in_passing
    )
    turn_id = None if left_open is None else left_open.turn_id
    events = item_events_of(strict_json.decode_value(meta.payload), thread, turn_id, ports.new_id)
    recorder = Recorder(writer, ports, label, thread, Ending(left_open, ordinal), cipher, events)
    return SessionLog(path, thread, ports, durability, recorder, label)


def open_to_append(
    path: Path, ports: Ports, durability: Durability, label: Label = UNLABELLED, *, made_by: Writer | None = None
) -> SessionLog:
    """A log that is there, locked, its end mended and the turn that it was left in closed.

    A sealed one is unsealed first. `made_by`: who has just copied it, and leaves that turn open. SourceError (NoKey,
    WrongKey), UsageError, Locked, WriteError.
    """
    by, fs = holder(ports.timestamp()), ports.fs
    writer = made_by or open_writer(fs, path, held_by=by, durability=durability, root=ports.home)
    path = Path(writer.path)
    try:
        with ports.origin(path, writer.end).opened() as lineage:
            thread, label = lineage.opened[0].thread or "", lineage.opened[0].head.label.around(label)
            ending = ending_of(lineage)
            cipher = None
            if (behind := encryption_behind(lineage.opened[0].source, ports.keys, path, ending.ordinal)) is not None:
                cipher, ending = behind[0], dataclasses.replace(ending, ordinal=behind[1])
            session = lineage.opened[0].session or {}
        events = item_events_of(session, thread, ending.turn_id, ports.new_id)
        recorder = Recorder(writer, ports, label, thread, ending, cipher, events)
        if made_by is None:
            recorder.close_left_open()
    except BaseException:
        writer.close()
        raise
    return SessionLog(path, thread, ports, durability, recorder, label)


def read_log(path: Path, ports: Ports, label: Label = UNLABELLED) -> SessionLog:
    """A log that is only read. SourceError."""
    with ports.origin(path).opened() as lineage:
        thread, label = lineage.opened[0].thread or "", lineage.opened[0].head.label.around(label)
    return SessionLog(path, thread, ports, Durability.TURN, None, label)
