"""The text of an encrypted file as a source: every line opened, in its place, with spaces behind it.

Whole lines are opened as they are asked for, so reading stays as lazy as it is of a plain file; the last few stretches
are kept. A line that cannot be opened is damage in its place, and so is any plain line: nobody can slip one in. Where
numbers do not follow one another, lines were taken out, doubled or moved: that is in `damage`.

What is written behind the lines of a file goes by the whole lines that are there. A record that is not encrypted makes
it a plain rollout, which stays one; an encrypted line an encrypted one. A file in which no line can be read, or that
has none, becomes an encrypted one where there are keys: what a crash has left of an encrypted one may be all that it
holds.

NoKey: a line names a key that is not there. WrongKey: a key opens neither the line nor any of the others that are at
hand. Only reading lines raises them: what the session_meta says readably can be had without a key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rollout import ids
from rollout.dialects.codex import envelope
from rollout.dialects.codex.session_meta import base_of
from rollout.errors import NoKey, SourceError, UsageError, WrongKey
from rollout.files.encrypted import lines as encrypted
from rollout.files.encrypted.keys import KEYS_FILE, Cipher, Keys
from rollout.files.encrypted.lines import LineCipher, Parts, is_encrypted, parts_of
from rollout.files.plain import FileSource
from rollout.files.port import AnyPath
from rollout.files.sealed.reader import SealedSource
from rollout.format import lines, records
from rollout.format.records import Segment
from rollout.limits import DEFAULT, KIB, Limits

_HEAD_BYTES = 64 * KIB
_STEP_BYTES = 4 * KIB
_KEPT = 3
_CHANGED, _PLAIN = b"c", b"p"
_BLANK = b"\0 \t\r"


PlainText = FileSource | SealedSource | lines.BytesSource
"""The text of a rollout as it stands there, or unpacked."""


class DecryptingSource:
    """Made of an encrypted file's bytes; the thread id is that of its first line, or else of its name."""

    def __init__(self, stored: PlainText, keys: Keys, limits: Limits, path: Path | None = None) -> None:
        self.stored = stored
        self._given, self._limits, self._path = keys, limits, path
        self._noted: dict[tuple[int, str], None] = {}
        self._cipher: Cipher | None = None
        self._proven: set[str] = set()  # keys that have opened something
        self._opened: list[tuple[int, bytes]] = []  # whole lines and where they begin, newest first
        self._beyond = range(0)  # the line that was met last of those too long to be opened
        self._raw_head = self._line_at_beginning()
        self._meta = encrypted.readable_meta(self._raw_head) or {}
        own, named, base = self._meta.get("id"), path and ids.parse_file_name(path.name), base_of(self._meta)
        self.thread = own if isinstance(own, str) else named.thread if named else ""
        self._is_begun = False  # whether its first line was among those that were opened
        # Where lines were opened from: the first number, lines ahead of it that have none; and up to: the last one.
        self._first: dict[int, tuple[int, int]] = {}
        self._last: dict[int, tuple[int, int]] = {0: (((base and base.ordinal) or 0) - 1, 0)}

    @property
    def size(self) -> int:
        return self.stored.size

    @property
    def bytes_read(self) -> int:
        return self.stored.bytes_read

    @property
    def usual_text_bytes(self) -> int:
        """As of the file's bytes."""
        found: int = getattr(self.stored, "usual_text_bytes", self.stored.size)
        return found

    @property
    def damage(self) -> list[tuple[int, str]]:
        """Offset and reason, of what is wrong between lines, or with the session_meta."""
        return list(self._noted)

    @property
    def last_number(self) -> int | None:
        """The number of the last line, those that cannot be opened counted in; None if no line near the end tells it.

        To be asked when the end was read.
        """
        return sum(self._last[self.size]) if self.size in self._last else None

    def head(self) -> bytes:
        """The first line, opened as far as it can be: without the key, what is readable of it. Never raises."""
        parts = encrypted.parts_of(self._raw_head)
        try:
            found = None if parts is None else LineCipher(self._keys(), self.thread).open(self._raw_head, parts)
        except (NoKey, KeyError):
            return self._raw_head
        if found is None and not self._is_begun:
            self._note(0, "the session_meta was changed, or belongs to another thread, or the key is a wrong one")
        return self._raw_head if found is None else found

    def read_at(self, offset: int, n: int, /) -> bytes:
        end = min(offset + n, self.size)
        found = []
        while offset < end:
            begin, text = self._lines_at(offset, end)
            found.append(text[offset - begin : end - begin])
            offset = begin + len(text)
        return found[0] if len(found) == 1 else b"".join(found)

    def check_key(self) -> Cipher:
        """The keys, if they open the file: before it is written to. NoKey, WrongKey."""
        cipher = self._keys()
        parts = encrypted.parts_of(self._raw_head)
        if parts is not None and self._try(self._raw_head, parts, cipher) is None:
            self._prove(parts.key_id, [])
        return cipher

    def _line_at_beginning(self) -> bytes:
        pieces = list[bytes]()
        end, step = min(self.size, self._limits.line_bytes), max(self._limits.first_chunk_bytes, _STEP_BYTES)
        for block in lines.chunks(self.stored, 0, end, step):
            pieces.append(block)
            if b"\n" in block:
                break
        return b"".join(pieces).partition(b"\n")[0]

    def _keys(self) -> Cipher:
        if self._cipher is None:
            self._cipher = self._given.cipher()
            if self._cipher is None:
                parts = encrypted.parts_of(self._raw_head)
                named = "" if parts is None else f" with key {parts.key_id!r}"
                remedy = f"give a Cipher with that key, or name a file of keys in ${KEYS_FILE}"
                raise NoKey(f"is encrypted{named}, and no keys are given", path=self._path, remedy=remedy)
        return self._cipher

    def _lines_at(self, offset: int, end: int) -> tuple[int, bytes]:
        """Opened text with the byte at `offset`, and where it begins: whole lines, or a part of one that is too long.

        It goes as far as the line in which `end` lies, or to lines that are opened already.
        """
        for begin, text in self._opened:
            if begin <= offset < begin + len(text):
                return begin, text
        if offset in self._beyond:
            return offset, self.stored.read_at(offset, min(end, self._beyond.stop) - offset)
        begin = lines.last_line_end(self.stored, 0, offset)
        known = (*(begin for begin, _ in self._opened), self._beyond.start)
        stop = min([end, *(at for at in known if at > offset)])
        last = lines.last_line_end(self.stored, begin, stop)
        if last < stop:
            stop = lines.first_line_end(self.stored, stop, self.size)
            if stop - last > self._limits.line_bytes + 1:
                self._beyond, stop = range(last, stop), last
                if last <= offset:
                    return self._lines_at(offset, end)
        text = self._open(self.stored.read_at(begin, stop - begin), begin)
        self._opened = [(begin, text), *self._opened[: _KEPT - 1]]
        return begin, text

    def _open(self, text: bytes, begin: int) -> bytes:
        found, offset, before, without = text.split(b"\n"), begin, None, 0
        for i, line in enumerate(found):
            if (line.startswith(b"{") or line.strip(_BLANK)) and len(line) <= self._limits.line_bytes:
                found[i] = opened = self._open_line(line, found)
                number = None if opened.startswith(envelope.UNOPENED) else encrypted.ordinal_of(line)
                if number is None:
                    without += 1
                else:
                    if before is None:
                        self._first[begin] = number, without
                    else:
                        self._check(offset, before, number, without)
                    before, without = number, 0
            offset += len(line) + 1
        end = begin + len(text)
        self._is_begun = self._is_begun or begin == 0
        if before is not None:
            self._last[end] = before, without
        for edge in (begin, end):
            if edge in self._first and edge in self._last:
                (number, ahead), (before, behind) = self._first[edge], self._last[edge]
                self._check(edge, before, number, behind + ahead)
        return b"\n".join(found)

    def _check(self, offset: int, before: int, number: int, without: int) -> None:
        if number <= before:
            self._note(offset, f"line number {number} stands behind number {before}: doubled or moved")
        elif number > before + 1 + without:
            self._note(offset, f"lines are missing: number {number} stands behind number {before}")

    def _note(self, offset: int, reason: str) -> None:
        self._noted[offset, reason] = None

    def _open_line(self, line: bytes, others: list[bytes]) -> bytes:
        parts = encrypted.parts_of(line)
        opened = None if parts is None else self._try(line, parts, self._keys())
        if opened is not None:
            return opened
        if parts is not None:
            self._prove(parts.key_id, others)
        why = envelope.UNOPENED + (_PLAIN if parts is None else _CHANGED)
        return why.ljust(len(line)) if len(why) <= len(line) else line

    def _try(self, line: bytes, parts: Parts, cipher: Cipher) -> bytes | None:
        try:
            opened = LineCipher(cipher, self.thread).open(line, parts)
        except KeyError:
            why = f"is encrypted with key {parts.key_id!r}, which is not among the keys given"
            remedy = f"give that key as well (${KEYS_FILE}, or a Cipher)"
            raise NoKey(why, path=self._path, remedy=remedy) from None
        if opened is not None:
            self._proven.add(parts.key_id)
        return opened

    def _prove(self, key_id: str, others: list[bytes]) -> None:
        """Raises WrongKey, unless the key opens some line: of these, or at either end of the file."""
        if key_id in self._proven:
            return
        cipher = self._keys()
        at = max(self.size - _HEAD_BYTES, 0)
        ends = (self.stored.read_at(0, min(_HEAD_BYTES, self.size)), self.stored.read_at(at, self.size - at))
        for line in (*others, self._raw_head, *ends[0].split(b"\n"), *ends[1].split(b"\n")):
            parts = encrypted.parts_of(line)
            if parts is not None and parts.key_id == key_id and self._try(line, parts, cipher) is not None:
                return
        why = f"key {key_id!r} does not open it: it is another key of that id, or every line of that key was changed"
        raise WrongKey(why, path=self._path, remedy="give the key that it was written with; nothing of it is lost")


def cipher_for(sources: Iterable[lines.Source]) -> Cipher | None:
    """The keys of those that are encrypted; None if none of them is. NoKey, WrongKey."""
    found = [source.check_key() for source in sources if isinstance(source, DecryptingSource)]
    return found[0] if found else None


def plain_source(source: lines.Source) -> lines.Source:
    """The bytes that stand on the disk (unpacked) behind a source."""
    return source.stored if isinstance(source, DecryptingSource) else source


AnyText = PlainText | DecryptingSource
"""The text of a rollout: as it stands there, unpacked, decrypted."""


def text_of(
    source: PlainText,
    keys: Keys,
    limits: Limits = DEFAULT,
    path: Path | None = None,
    start: int = 0,
) -> AnyText:
    """The source, with its lines opened if they are encrypted; looking for that reads what is read next anyway."""
    is_plain = not is_encrypted(source, min(limits.chunk_bytes, limits.first_chunk_bytes), start)
    return source if is_plain else DecryptingSource(source, keys, limits, path)


def encryption_behind(
    source: lines.Source, keys: Keys, path: AnyPath, newest: int | None = None
) -> tuple[LineCipher, int] | None:
    """What encrypts the lines that are written behind those of a file, and the number of its last line.

    None for what is written plain; -1 if none of its lines is an encrypted one. `newest` is the number of its newest
    record, if that is known.

    Raises:
        NoKey: it is encrypted, and its key is not there.
        WrongKey: its key opens none of its lines.
        SourceError: nothing tells the number of its last line.
        UsageError: nothing tells the id of the thread, under whose key lines are encrypted.
    """
    if isinstance(source, DecryptingSource):
        cipher = LineCipher(source.check_key(), source.thread)
        source.read_at(max(source.size - 1, 0), 1)
        number = newest if source.last_number is None else source.last_number
        if number is None and any(parts_of(line) for line in _lines(source.stored)):
            remedy = "see what `rollout verify` says of it"
            raise SourceError("no line of it can be opened", path=path, remedy=remedy)
        return cipher, -1 if number is None else number
    if not keys or any(envelope.holds_record(line) for line in _lines(source)):
        return None
    name, master = ids.parse_file_name(os.path.basename(path)), keys.cipher()
    if name is None:
        why = "tells no thread id, neither in a line nor by its name: what is written to it could not be encrypted"
        raise UsageError(why, path=path, remedy="give it the name of a rollout, or delete it and create a new one")
    return None if master is None else (LineCipher(master, name.thread), -1)


def _lines(source: lines.Source) -> Iterator[bytes]:
    return (line.data for line in records.forward([Segment(source, source.size)]))
