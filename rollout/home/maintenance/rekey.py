"""A rollout is encrypted, encrypted anew under the current key, or decrypted.

It is about one file: its bases are files of their own. A new file is written beside the old one, is on the disk and
proven to say the same, and then takes its place. A crash leaves the one or the other, and perhaps a hidden part of the
new one, which goes when the file is next opened for append or the home is next tidied: it may be
plain text. The bytes of the old one are given back to the file system, not scrubbed off the disk, and of backups
nothing is known here.

An encrypted line is longer than the plain one, so what is encrypted or decrypted moves: that is refused while forks
refer to places in it. Under another key a line is as long as before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rollout.dialects.codex import envelope
from rollout.dialects.codex.session_meta import base_of
from rollout.errors import RecordError, UsageError, WriteError
from rollout.files import layout as homes
from rollout.files.disk import FileSystem
from rollout.files.encrypted.keys import Keys
from rollout.files.encrypted.lines import LineCipher, parts_of
from rollout.files.encrypted.reader import DecryptingSource
from rollout.files.fork import Users
from rollout.files.lineage import Opened, open_path
from rollout.files.source import Origin
from rollout.files.staging import replace
from rollout.format import records
from rollout.format.records import Segment
from rollout.home.index.database import NAME
from rollout.home.maintenance.repair import Proof, check_unwritten, locked, look


def rekey(fs: FileSystem, path: Path, home: Path, keys: Keys) -> None:
    """Puts the file at `path` under the current key; a plain one is encrypted, and the index, which has words, deleted.

    Forks and index are those of the home that it lies in, else of `home`. After an exception it is as it was.

    Raises:
        UsageError: there are no keys, or it is sealed.
        InUse: forks refer to places in it that would move.
        NoKey: it is encrypted, and its key is not there.
        WrongKey: its key opens none of its lines.
        Locked: somebody has it open to write.
        Conflict: somebody writes to it without a lock.
        WriteError: it is damaged, or the disk fails.
    """
    if not keys:
        raise UsageError("there is no key to encrypt with", path=path, remedy="give a Cipher, or $ROLLOUT_KEYS_FILE")
    home = homes.home_of(path) or home
    if _rewrite(fs, path, home, keys, is_to_be_encrypted=True):
        for name in (f"{NAME}-journal", NAME):
            with contextlib.suppress(FileNotFoundError):
                fs.unlink(home / name)


def decrypt(fs: FileSystem, path: Path, home: Path, keys: Keys) -> None:
    """Makes the file at `path` a plain one; one that is stays as it is. As `rekey`."""
    _rewrite(fs, path, homes.home_of(path) or home, keys, is_to_be_encrypted=False)


def keys_of(fs: FileSystem, path: Path) -> frozenset[str]:
    """The ids of the keys that the lines of a file are encrypted with: none, if it is plain. Needs no key."""
    with contextlib.closing(open_path(path, fs=fs)) as opened:
        if not isinstance(opened.source, DecryptingSource):
            return frozenset()
        stored = records.forward([Segment(opened.stored, opened.stored.size)])
        return frozenset(parts.key_id for line in stored if (parts := parts_of(line.data)) is not None)


def _rewrite(fs: FileSystem, path: Path, home: Path, keys: Keys, *, is_to_be_encrypted: bool) -> bool:
    """Whether it was plain."""
    what = "encrypted" if is_to_be_encrypted else "decrypted"
    origin = Origin(None, path, home, fs=fs, keys=keys)
    with locked(fs, path, what) as file, contextlib.closing(open_path(path, fs=fs, keys=keys)) as opened:
        size, was_plain = file.size(), not isinstance(opened.source, DecryptingSource)
        if opened.stored.size != size:
            raise UsageError("is sealed", path=path, remedy="unseal it first")
        if look(fs, file, origin, path).steps:
            raise WriteError("is damaged", path=path, remedy="repair it first")
        if wrong := _wrong(opened):
            raise WriteError(f"cannot be {what}: {wrong}", path=path, remedy="see `rollout verify`")
        if was_plain and not is_to_be_encrypted:
            return was_plain
        if was_plain == is_to_be_encrypted:
            Users(home, fs).refuse(path)
        proof = Proof(origin)

        def check(new: Path) -> None:
            with contextlib.closing(open_path(new, fs=fs, keys=keys)) as made:
                proof.check(new, what, is_damaged=_wrong(made) is not None)
                if made.stored.size != size:
                    Users(home, fs).refuse(path)
            check_unwritten(file, size, path)

        pieces = _encrypted(opened, keys, path) if is_to_be_encrypted else (line + b"\n" for line in _texts(opened))
        replace(fs, path, pieces, mtime_ns=fs.status(path).mtime_ns, check=check)
        return was_plain


def _wrong(opened: Opened) -> str | None:
    """Damage of an encrypted file, which cannot be written anew."""
    for line in opened.lines():
        if line.skipped:
            return "a line of it is too long"
        if line.data.startswith(envelope.UNOPENED):
            return "not all lines of it can be opened"
    damage = opened.source.damage if isinstance(opened.source, DecryptingSource) else []
    return damage[0][1] if damage else None


def _texts(opened: Opened) -> Iterator[bytes]:
    """The plain lines."""
    return (line.data.rstrip(b" ") for line in opened.lines())


def _encrypted(opened: Opened, keys: Keys, path: Path) -> Iterator[bytes]:
    cipher, thread = keys.cipher(), opened.thread
    if cipher is None or thread is None or not opened.head.is_first:
        raise WriteError("does not begin with its session_meta: it cannot be encrypted", path=path)
    of_thread, base = LineCipher(cipher, thread), base_of(opened.session)
    first = (base and base.ordinal) or 0
    try:
        for i, text in enumerate(_texts(opened)):
            yield of_thread.lines([text], first + i)[0] if i else of_thread.head(text, first)
    except RecordError as error:
        raise WriteError(f"cannot be encrypted: {error.message}", path=path) from error
