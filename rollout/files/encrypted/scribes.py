"""Whether what is written behind the lines of a file is encrypted, and how it is numbered then.

The whole lines that are there decide. A record that is not encrypted makes it a plain rollout, which stays one; an
encrypted line an encrypted one. A file in which no line can be read, or that has none, becomes an encrypted one where
there are keys: what a crash has left of an encrypted one may be all that it holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rollout import ids
from rollout.dialects.codex import envelope
from rollout.errors import SourceError, UsageError
from rollout.files.encrypted.keys import Keys
from rollout.files.encrypted.lines import LineCipher, parts_of
from rollout.files.encrypted.reader import DecryptingSource
from rollout.files.lineage import text_of
from rollout.files.plain import FileSource
from rollout.files.port import AnyPath, ReadFile
from rollout.format import lines


def cipher_behind(source: lines.Source, keys: Keys, path: AnyPath) -> LineCipher | None:
    """What encrypts the lines that are written behind those of a file; None for what is written plain.

    Raises:
        NoKey: it is encrypted, and its key is not there.
        WrongKey: its key opens none of its lines.
        UsageError: nothing tells the id of the thread, under whose key lines are encrypted.
    """
    if isinstance(source, DecryptingSource):
        return LineCipher(source.check_key(), source.thread)
    if not keys or any(envelope.holds_record(line) for line in _lines(source)):
        return None
    name, cipher = ids.parse_file_name(os.path.basename(path)), keys.cipher()
    if name is None:
        why = "tells no thread id, neither in a line nor by its name: what is written to it could not be encrypted"
        raise UsageError(why, path=path, remedy="give it the name of a rollout, or delete it and create a new one")
    return None if cipher is None else LineCipher(cipher, name.thread)


def last_number(source: lines.Source, newest: int | None) -> int:
    """The number of the last line of a file that goes on encrypted; -1 if none of its lines is an encrypted one.

    The end of the file was read; the number of its `newest` record is known. SourceError if nothing tells it.
    """
    if not isinstance(source, DecryptingSource):
        return -1
    try:
        return source.last_number(newest)
    except SourceError:
        if any(parts_of(line) for line in _lines(source.stored)):
            raise
        return -1


def encryption_behind(file: ReadFile, keys: Keys, path: AnyPath) -> tuple[LineCipher, int] | None:
    """What encrypts lines that come at the end of an open file, and the number of the next one; None for a plain file.

    As `cipher_behind`.
    """
    source = text_of(FileSource(file), keys, path=Path(path))
    cipher = cipher_behind(source, keys, path)
    if cipher is None:
        return None
    if source.size:
        source.read_at(source.size - 1, 1)
    return cipher, last_number(source, None) + 1


def _lines(source: lines.Source) -> Iterator[bytes]:
    for block in lines.forward(source):
        if isinstance(block, lines.Batch):
            yield from block.lines
