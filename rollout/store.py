"""The face of a home full of rollouts: logs are made, opened, found, kept and deleted here.

Names of files come from ids and the clock, never from data; files are 0600, directories 0700. A file that forks refer
to is not deleted, unless the forks are made to stand alone first.

What a method needs it imports when it is called: who asks for one thing does not wait for the others. So the types of
results are written as `home.results` has them.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Unpack

from rollout.errors import UsageError
from rollout.files import layout
from rollout.files.disk import REAL, FileSystem, RealFileSystem
from rollout.files.encrypted.keys import Cipher, Keys, keys_given
from rollout.files.port import Durability, Progress
from rollout.files.thread_names import read_names
from rollout.format import labels
from rollout.home import results
from rollout.home.filters import Filters, Selection, Sort
from rollout.session.environment import Ports

if TYPE_CHECKING:
    from rollout.home.index.index import Index
    from rollout.home.lifecycle import Keeper

Reference: TypeAlias = str | os.PathLike[str] | int
"""A thread id, the beginning or the name of one, a path, or -1, -2, … for the newest threads (see `Store.resolve`)."""
Mode: TypeAlias = Literal["append", "read"]

T = TypeVar("T")
VERSION = "0.1.0"
"""The `cli_version` of a log whose maker does not say one: this library's."""


class Store:
    """A home: `home`, else $ROLLOUT_HOME, else $CODEX_HOME, else ~/.codex. Nothing is made before it is needed.

    `clock` gives Unix seconds, `randomness(n)` n bytes; `fs` is the file system (by default the real one, which
    writes nothing outside of the home). With a `cipher` (else the keys in the file $ROLLOUT_KEYS_FILE, if that is set)
    what is made here is encrypted, and what is written to a file without a record; plain rollouts stay as they are.
    """

    home: Path
    fs: FileSystem
    keys: Keys

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        clock: Callable[[], float] = time.time,
        fs: FileSystem | None = None,
        randomness: Callable[[int], bytes] = os.urandom,
        cipher: Cipher | None = None,
    ) -> None:
        self.home = layout.absolute(home)
        self.fs, self.keys = fs or RealFileSystem(self.home), keys_given(cipher)
        self._ports = Ports(self.home, self.fs, clock, randomness, self.keys)
        self._outside = dataclasses.replace(self._ports, home=None, fs=fs or REAL)

    def __repr__(self) -> str:
        return f"<Store {self.home}>"

    def create(
        self,
        *,
        cwd: str | os.PathLike[str],
        model_provider: str,
        originator: str = "rollout",
        source: str | Mapping[str, Any] = "cli",
        base_instructions: str | Mapping[str, Any] | None = None,
        git: Mapping[str, Any] | None = None,
        durability: Durability = Durability.TURN,
        session_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        **more: Any,
    ) -> results.SessionLog:
        """A new thread, open for writing and on the disk (unless the durability is NONE).

        The arguments are what its session_meta says; `more` are further keys of it. `session_id` and `tags` are the
        label of the log, inside of that which is in force here.

        Raises:
            RecordError: what is said cannot be written as JSON.
            UsageError: a key is not for the caller to say, or a label is none.
            WriteError: the file cannot be made.
        """
        from rollout.dialects.codex.encoder import new_session_meta, timestamp
        from rollout.session.label_scope import in_force
        from rollout.session.log import create_log

        label = in_force().around(labels.label(session_id, tags))
        thread, created = self._ports.new_id(), self._ports.clock()
        part = new_session_meta(
            more,
            id=thread,
            timestamp=timestamp(created),
            cwd=os.fspath(cwd),
            originator=originator,
            cli_version=VERSION,
            source=source,
            model_provider=model_provider,
            base_instructions=base_instructions,
            git=git,
        )
        path = self._ports.new_path(thread)
        return create_log(path, thread, part, created, self._ports, durability, label=label)

    def open(
        self,
        ref: Reference,
        mode: Mode = "append",
        *,
        durability: Durability = Durability.TURN,
        session_id: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> results.SessionLog:
        """A log that is there: to go on with, locked for this writer, or to read.

        For append a sealed one is unsealed first, its end is mended, and a turn that a crash left open is closed as
        interrupted. `session_id` and `tags` are said in the log's label, for as long as it is open.

        Raises:
            NotFound: there is no such log.
            Ambiguous: the reference names several.
            NotARollout: neither its name nor a session_meta says that it is one.
            Locked: another writer has it; it names who.
            WriteError: its end cannot be mended.
            UsageError: the mode or a label is none.
        """
        from rollout.session.log import open_to_append, read_log

        path, label = self.resolve(ref, to_change=mode == "append"), labels.label(session_id, tags)
        if mode == "read":
            return read_log(path, self._ports_for(path), label)
        if mode != "append":
            raise UsageError(f"{mode!r} is no mode", remedy='give "append" or "read"')
        return open_to_append(path, self._ports_for(path), durability, label)

    def list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        sort: Sort = "created",
        progress: Progress | None = None,
        **filters: Unpack[Filters],
    ) -> results.SessionPage:
        """A page of the rollouts of this home, newest first (as they were created, or written to: `updated`).

        One row a thread; the filters are those of `Filters`. Archived ones, subagents and forks are left out unless
        they are asked for. `cursor` is that of the page before; `progress(done, total)` counts threads.

        Raises:
            UsageError: a limit, cursor, order or filter that can never be right.
        """
        from rollout.home.listing import list_rows

        selection = Selection(sort, **filters)
        return self._indexed(lambda index: list_rows(index, selection, limit=limit, cursor=cursor, progress=progress))

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        kinds: Iterable[str] | None = None,
        standing: bool | None = None,
        progress: Progress | None = None,
        **filters: Unpack[Filters],
    ) -> results.Hits:
        """Records that hold all words of the query (see `home.query`), newest session first, and whether they stand.

        `kinds` are some of user, assistant, tool_call, tool_output; `standing`: only what the model still sees (False:
        only what it does not). The filters choose threads as in `list`, but subagents and forks are searched unless
        they are turned off; session_id and tags must be those of the record itself.

        Raises:
            UsageError: a query, limit, cursor, kind or filter that can never be right.
            SourceError: this SQLite cannot search texts.
        """
        from rollout.home.search import search

        filters.setdefault("subagents", True)
        filters.setdefault("forks", True)
        selection = Selection(**filters)
        return self._indexed(
            lambda index: search(
                index, query, selection, limit=limit, cursor=cursor, kinds=kinds, standing=standing, progress=progress
            )
        )

    def tree(self, *, progress: Progress | None = None) -> tuple[results.SessionTree, ...]:
        """All rollouts, archived ones too, with what was forked from them, went back in them, was started by them.

        Roots newest first, the children of each oldest first.
        """
        from rollout.home.tree import grow_tree

        return self._indexed(lambda index: grow_tree(index, progress))

    def shorten(self, ids: Iterable[str]) -> dict[str, str]:
        """For each thread id its shortest beginning, by groups, that is a reference to it alone in this home."""
        from rollout.home.threads import shorten

        threads = (entry.thread for entry in layout.scan(self.home, fs=self.fs))
        return shorten(ids, threads)

    def resolve(self, ref: Reference, *, to_change: bool = False) -> Path:
        """The file that a reference names: -1 (the newest), a thread id, the beginning or name of one, else a path.

        In that order; what looks like a path (`a/b`, `./a`, `a.jsonl`) is one. Of a thread with several files, the one
        that it goes on in. `to_change` is said by whatever changes or deletes the file.

        Raises:
            NotFound: it names nothing.
            Ambiguous: it names several.
            UsageError: it can name nothing.
            NotARollout: `to_change`, and neither the file's name nor a session_meta says that it is one.
        """
        from rollout.files.source import locate, locate_to_change

        locate = locate_to_change if to_change else locate
        return locate(ref, self.home, fs=self.fs)

    def names(self) -> Mapping[str, str]:
        """The names of threads by id, as `session_index.jsonl` has them: any text, also of threads that are gone."""
        return read_names(self.home, self.fs)

    def rename(self, ref: Reference, name: str | None) -> str | None:
        """Names a thread for all who read `session_index.jsonl`, or takes its name away (None).

        Returns the name as it is kept (trimmed). It is never encrypted.

        Raises:
            UsageError: it could be read as a path, a position or an id, or another thread has it.
            WriteError: it cannot be written.
        """
        path = self.resolve(ref, to_change=True)
        return self._keeper_for(path).rename(path, name)

    def archive(self, ref: Reference) -> Path:
        """Moves all files of a thread to `archived_sessions`; the new path. Forks go on finding it there.

        An archived one stays as it is.

        Raises:
            UsageError: it lies in no home.
            Locked: another writer has it.
            WriteError: as the archive has a file of that name, say: nothing is lost, and once more moves the rest.
        """
        path = self.resolve(ref, to_change=True)
        return self._keeper_for(path).archive(path)

    def unarchive(self, ref: Reference) -> Path:
        """Moves all files of a thread back to the days of their names; the new path. As `archive`."""
        path = self.resolve(ref, to_change=True)
        return self._keeper_for(path).unarchive(path)

    def forks_of(self, ref: Reference) -> Sequence[Path]:
        """The files that go on from a file of this thread, but for its own reverts."""
        return self._keeper_for(path := self.resolve(ref)).forks_of(path)

    def detach(self, ref: Reference) -> Path:
        """Makes a fork stand alone: its file then holds the lines of its bases. What goes on from it is detached first.

        Raises:
            NotFound: a base is missing.
            Locked: another writer has it.
            InUse: a fork of it has just been made.
            WriteError: the disk fails: it is as it was.
        """
        path = self.resolve(ref, to_change=True)
        return self._keeper_for(path).detach(path)

    def delete(self, ref: Reference, *, detach_forks: bool = False) -> Path:
        """Removes all files of a thread; the path of the newest. A path outside of the home is one file.

        Raises:
            InUse: forks refer to it, and are not detached first.
            Locked: another writer has it.
            WriteError: the disk fails: what is left is hidden, and goes with the next deletion.
        """
        path = self.resolve(ref, to_change=True)
        return self._keeper_for(path).delete(path, detach_forks=detach_forks)[-1]

    def seal(self, ref: Reference, *, level: int = 3, progress: Progress | None = None) -> results.SealResult:
        """Puts a `.jsonl.zst` in the place of a rollout's file, read back and compared before the plain one goes.

        Everything reads it as before; opening it for append unseals it. One that is sealed stays as it is. `level` is
        Zstandard's, 1 to 22; `progress(done, total)` counts bytes.

        Raises:
            NotFound: there is no such rollout.
            NotARollout: the file is none.
            UsageError: the level is none.
            Locked: another writer has it.
            Conflict: it was changed meanwhile.
            WriteError: the plain file is there still.
        """
        from rollout.files.sealed.seal import seal
        from rollout.files.writer import holder

        path = self.resolve(ref, to_change=True)
        ports = self._ports_for(path)
        by = holder(ports.timestamp())
        return seal(ports.fs, path, held_by=by, level=level, progress=progress)

    def unseal(self, ref: Reference, *, progress: Progress | None = None) -> Path:
        """Puts the plain file in the place of the sealed one, whichever program sealed it; its path.

        One that is plain stays as it is.

        Raises:
            NotFound: there is no such rollout.
            NotARollout: the file is none.
            Locked: another writer has it.
            WriteError: with the offset of the damage if not all can be unpacked: the sealed file is there still.
        """
        from rollout.files.sealed.seal import unseal
        from rollout.files.writer import holder

        path = self.resolve(ref, to_change=True)
        ports = self._ports_for(path)
        by = holder(ports.timestamp())
        return unseal(ports.fs, path, held_by=by, progress=progress)

    def keys_of(self, ref: Reference) -> frozenset[str]:
        """The ids of the keys that a rollout's file is encrypted with: none, if it is plain. Needs no key."""
        from rollout.home.maintenance.rekey import keys_of

        path = self.resolve(ref)
        return keys_of(self._ports_for(path).fs, path)

    def rekey(self, ref: Reference, *, detach_forks: bool = False) -> Path:
        """Encrypts a rollout's file anew under the current key; a plain one if nothing refers to it any more. Its path.

        Proven to say the same before it takes the old one's place; after an error it is as it was.

        Raises:
            UsageError: there is no key, or it is sealed.
            InUse: forks refer to it, and are not detached first.
            NoKey: a key of its lines is missing.
            WrongKey: a key does not fit.
            Locked: another writer has it.
            Conflict: it was changed meanwhile.
            WriteError: the disk fails, or it is damaged.
        """
        from rollout.home.maintenance.rekey import rekey

        path = self.resolve(ref, to_change=True)
        if detach_forks and not self.keys_of(path):
            self._keeper_for(path).detach_users([path])
        rekey(self._ports_for(path).fs, path, self.home, self.keys)
        return path

    def decrypt(self, ref: Reference, *, detach_forks: bool = False) -> Path:
        """Puts a plain file in the place of an encrypted one, if nothing refers to that any more. As `rekey`."""
        from rollout.home.maintenance.rekey import decrypt

        path = self.resolve(ref, to_change=True)
        if detach_forks and self.keys_of(path):
            self._keeper_for(path).detach_users([path])
        decrypt(self._ports_for(path).fs, path, self.home, self.keys)
        return path

    def du(self, refs: Sequence[Reference] | None = None, *, progress: Progress | None = None) -> results.DiskUsage:
        """What the bytes of these rollouts (None: of all, archived ones too) are for, and what sealing would give back.

        A file that cannot be read is a row with its trouble. `progress(done, total)` counts bytes.

        Raises:
            NotFound: a reference names nothing.
            Ambiguous: a reference names several.
        """
        from rollout.home.maintenance.disk_usage import measure

        paths = None if refs is None else [self.resolve(ref) for ref in refs]
        return measure(paths, self.home, self.fs, self.keys, progress)

    def refresh_index(
        self, rebuild: bool = False, texts: bool = True, progress: Progress | None = None
    ) -> results.IndexStatus:
        """Brings the index of the home up to date, the `texts` that are searched too; `rebuild`: begins anew.

        It is a cache: lists and searches do the same on their own, as far as they need it.
        """
        from rollout.home.index.fulltext import Texts

        def refresh(index: Index) -> results.IndexStatus:
            index.refresh(rebuild=rebuild, progress=progress)
            if texts:
                Texts(index).take(layout.scan(self.home, fs=self.fs))
            return index.status()

        return self._indexed(refresh)

    def index_status(self) -> results.IndexStatus:
        """How much of the home the index knows; no rollout is opened."""
        return self._indexed(lambda index: index.status())

    def doctor(self, *, progress: Progress | None = None) -> results.Diagnosis:
        """What is wrong in this home, and for each thing the command that helps; nothing is changed.

        `progress(bytes_done, bytes_total)` is of what the index does not know. See `rollout.home.doctor`.
        """
        from rollout.home.doctor import diagnose

        return self._indexed(lambda index: diagnose(index, self._ports.clock(), progress))

    def stats(self, *, progress: Progress | None = None, **filters: Unpack[Filters]) -> results.Stats:
        """What the sessions of this home have spent, by day, model and project, and what is in context now.

        The filters choose threads as in `list`, but archived ones, subagents and forks count unless turned off, and
        `model`, `since` and `until` choose what was spent by that model, on those days (UTC).

        Raises:
            UsageError: a filter that can never be right, or `text`, which is none here.
        """
        from rollout.home.stats import count_stats

        return self._indexed(lambda index: count_stats(index, filters, progress))

    def _indexed(self, work: Callable[[Index], T]) -> T:
        from rollout.home.index.index import with_index

        return with_index(self.home, self.fs, work, self.keys)

    def _keeper_for(self, path: Path) -> Keeper:
        from rollout.home.lifecycle import Keeper

        ports = self._ports_for(path)
        return Keeper(self.home, ports.fs, self._ports.timestamp, ports.keys)

    def _ports_for(self, path: Path) -> Ports:
        return self._ports if path.absolute().is_relative_to(self.home) else self._outside


def open_log(
    source: Reference,
    mode: Mode = "append",
    *,
    home: str | os.PathLike[str] | None = None,
    durability: Durability = Durability.TURN,
    session_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    cipher: Cipher | None = None,
) -> results.SessionLog:
    """Opens a log by path or reference, to go on with or to read. See `Store.open`.

    The home is `home`, else the one that the file lies in, else the default one.
    """
    from rollout.files.source import locate

    path = locate(source, None if home is None else Path(home).expanduser())
    store = Store(home or layout.home_of(path), cipher=cipher)
    return store.open(path, mode, durability=durability, session_id=session_id, tags=tags)
