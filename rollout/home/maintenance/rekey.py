"""A rollout is encrypted, encrypted anew under the current key, or decrypted.

It is about one file: its bases are files of their own. In an encrypted one every line keeps its place, whichever of
these is done, so forks that refer to it go on finding what they found. A plain one grows, so it is encrypted only if
nothing refers to it. The new file is on the disk, and proven to say the same as the old one, before it takes its place;
a crash leaves the one or the other, and perhaps a hidden part of the new one, which goes when the file is next opened
for append or the home is next tidied (see `keeping`): it may be plain text. The bytes of the old one are given back to
the file system, not scrubbed off the disk, and of backups nothing is known here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from rollout.dialects.codex import envelope
from rollout.errors import RecordError, UsageError, WriteError
from rollout.files import layout as homes
from rollout.files.bases import base_of
from rollout.files.dependents import Users
from rollout.files.disk import AppendFile, FileSystem
from rollout.files.encrypted.keys import Cipher, Keys
from rollout.files.encrypted.lines import Scribe, parts_of, renew
from rollout.files.encrypted.reader import DecryptingSource
from rollout.files.lineage import Opened, open_path
from rollout.files.source import Origin
from rollout.files.staging import REKEYED, hidden
from rollout.format import lines
from rollout.home.index.database import NAME
from rollout.home.maintenance import repair
from rollout.home.maintenance.rewrite import (
    Through,
    describe_placeless,
    differences,
    fingerprint,
    locked,
    refuse_changed,
    replace,
    unlink,
)
from rollout.session.state import Turn


def rekey(fs: FileSystem, path: Path, home: Path, keys: Keys) -> None:
    """The file at `path` under the current key; a plain one is encrypted.

    UsageError (there are no keys, it is sealed), InUse (forks refer to a plain one), NoKey, WrongKey, Locked, Conflict,
    WriteError (it is damaged, or the disk fails): it is as it was. The index goes where a plain one was: it has words.
    Forks and index are those of the home that it lies in, else of `home`.
    """
    home = homes.home_of(path) or home
    cipher = keys.cipher()
    if cipher is None:
        raise UsageError("there is no key to encrypt with", path=path, remedy="give a Cipher, or $ROLLOUT_KEYS_FILE")
    with _opened(fs, path, home, keys, "encrypted") as (file, origin, opened):
        if isinstance(opened.source, DecryptingSource):
            _exchange(file, origin, path, _renewed(opened.source, cipher), keeps_places=True)
            return
        Users(home, fs).refuse(path)
        _exchange(file, origin, path, _encrypted(opened, cipher, path), keeps_places=False)
        unlink(fs, home / f"{NAME}-journal", home / NAME)


def decrypt(fs: FileSystem, path: Path, home: Path, keys: Keys) -> None:
    """The file at `path` as a plain one, its lines in their places. As `rekey`."""
    with _opened(fs, path, home, keys, "decrypted") as (file, origin, opened):
        if isinstance(opened.source, DecryptingSource):
            _exchange(file, origin, path, _blocks(opened.source), keeps_places=True)


def keys_of(fs: FileSystem, path: Path) -> frozenset[str]:
    """The ids of the keys that the lines of a file are encrypted with: none, if it is plain. Needs no key."""
    with contextlib.closing(open_path(path, fs=fs)) as opened:
        source = opened.source
        if not isinstance(source, DecryptingSource):
            return frozenset()
        blocks = (block.lines for block in lines.forward(source.stored) if isinstance(block, lines.Batch))
        return frozenset(parts.key_id for block in blocks for line in block if (parts := parts_of(line)) is not None)


@contextlib.contextmanager
def _opened(
    fs: FileSystem, path: Path, home: Path, keys: Keys, what: str
) -> Iterator[tuple[AppendFile, Origin, Opened]]:
    """A plain `.jsonl` under the lock, all of it looked at."""
    origin = Origin(None, path, home, fs=fs, keys=keys)
    with locked(fs, path, what) as file, contextlib.closing(open_path(path, fs=fs, keys=keys)) as opened:
        if opened.stored.size != file.size():
            raise UsageError("is sealed", path=path, remedy="unseal it first")
        if repair.look(fs, file, origin, path, None).steps:
            raise WriteError("is damaged", path=path, remedy="repair it first")
        if wrong := _wrong(opened):
            raise WriteError(f"cannot be {what}: {wrong}", path=path, remedy="see `rollout verify`")
        yield file, origin, opened


def _wrong(opened: Opened) -> str | None:
    """Damage of an encrypted file, which cannot be written anew."""
    for block in lines.forward(opened.source):
        if not isinstance(block, lines.Batch):
            return "a line of it is too long"
        if any(line.startswith(envelope.UNOPENED) for line in block.lines):
            return "not all lines of it can be opened"
    damage = opened.source.damage if isinstance(opened.source, DecryptingSource) else []
    return damage[0][1] if damage else None


def _blocks(source: lines.Source) -> Iterator[bytes]:
    for block in lines.forward(source):
        assert isinstance(block, lines.Batch)  # `_wrong` has found no other
        yield b"\n".join(block.lines)


def _lines(source: lines.Source) -> Iterator[bytes]:
    for block in _blocks(source):
        yield from block.split(b"\n")[:-1]


def _renewed(source: DecryptingSource, cipher: Cipher) -> Iterator[bytes]:
    for line in _lines(source.stored):
        parts = parts_of(line)
        made = line if parts is None else renew(line, parts, cipher, source.thread)
        assert made is not None  # every line was opened under this lock
        yield made + b"\n"


def _encrypted(opened: Opened, cipher: Cipher, path: Path) -> Iterator[bytes]:
    base = base_of(opened.session)
    if not opened.begins_with_meta or opened.thread is None:
        raise WriteError("does not begin with its session_meta: it cannot be encrypted", path=path)
    scribe, is_first = Scribe(cipher, opened.thread, (base and base.ordinal) or 0), True
    try:
        for line in _lines(opened.source):
            if line.strip():
                yield scribe.head(line) if is_first else scribe.lines(line + b"\n")
                is_first = False
    except RecordError as error:
        raise WriteError(f"cannot be encrypted: {error.message}", path=path) from error


def _exchange(file: AppendFile, origin: Origin, path: Path, pieces: Iterable[bytes], *, keeps_places: bool) -> None:
    fs, new, size = origin.fs, hidden(path, REKEYED), file.size()

    def prove() -> None:
        changed = _differences(origin, Through(None, path, origin.home, fs=fs, keys=origin.keys, at=new), keeps_places)
        with contextlib.closing(open_path(new, fs=fs, keys=origin.keys)) as opened:
            if _wrong(opened) or (keeps_places and opened.source.size != size):
                changed = [*changed, "damage"]
        refuse_changed(path, changed)

    replace(fs, file, path, new, pieces, prove, size=size, mtime_ns=fs.status(path).mtime_ns)


def _differences(old: Origin, new: Origin, keeps_places: bool) -> list[str]:
    describe = _describe if keeps_places else describe_placeless
    return differences(fingerprint(old, describe), fingerprint(new, describe))


def _describe(turn: Turn) -> object:
    return describe_placeless(turn), turn.id, turn.offset, turn.end_offset
