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
from typing import NamedTuple

from rollout import ids
from rollout.dialects.codex import envelope
from rollout.dialects.codex.session_meta import base_of
from rollout.errors import NoKey, SourceError, UsageError, WrongKey
from rollout.files.encrypted import lines as encrypted
from rollout.files.encrypted.keys import KEYS_FILE, Cipher, Keys
from rollout.files.encrypted.lines import LineCipher, Parts, is_encrypted, parts_of
from rollout.files.plain import FileSource
from rollout.files.port import AnyPath, ReadFile
from rollout.files.sealed.reader import SealedSource
from rollout.format import lines
from rollout.limits import DEFAULT, KIB, Limits

_HEAD_BYTES = 64 * KIB
_STEP_BYTES = 4 * KIB
_KEPT = 3
_SHORTEST = len(envelope.UNOPENED) + 1
_CHANGED, _PLAIN = b"c", b"p"
_BLANK = b"\0 \t\r"


PlainText = FileSource | SealedSource | lines.BytesSource
"""The text of a rollout as it stands there, or unpacked."""


class _Stretch(NamedTuple):
    """Opened text; `begins` and `ends`: there a line does (else it is in a line too long to be opened)."""

    begin: int
    end: int
    text: bytes
    begins: bool
    ends: bool


class DecryptingSource:
    """Made of an encrypted file's bytes; `name_thread` is the thread id that its name tells."""

    def __init__(
        self, stored: PlainText, keys: Keys, limits: Limits, path: str | None = None, name_thread: str | None = None
    ) -> None:
        self.stored = stored
        self.damage: list[tuple[int, str]] = []
        """Offset and reason, of what is wrong between lines, or with the session_meta."""
        self._noted: set[tuple[int, str]] = set()
        self._given, self._limits, self._path = keys, limits, path
        self._cipher: Cipher | None = None
        self._stretches: list[_Stretch] = []  # newest first
        self._proven: set[str] = set()  # keys that have opened something
        self._last: dict[int, tuple[int, int]] = {}  # where a stretch ends: last number, lines behind it without one
        self._first: dict[int, tuple[int, int]] = {}  # where it begins: the first one, lines ahead of it without one
        self._raw_head = self._line_at_beginning()
        self._meta = encrypted.readable_meta(self._raw_head) or {}
        own = self._meta.get("id")
        self.thread = own if isinstance(own, str) else name_thread or ""

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

    def head(self) -> bytes:
        """The first line, opened as far as it can be: without the key, what is readable of it. Never raises."""
        parts = encrypted.parts_of(self._raw_head)
        try:
            found = None if parts is None else LineCipher(self._keys(), self.thread).open(self._raw_head, parts)
        except (NoKey, KeyError):
            return self._raw_head
        if found is None and not self._is_read_from_start():
            self._note(0, "the session_meta was changed, or belongs to another thread, or the key is a wrong one")
        return self._raw_head if found is None else found

    def read_at(self, offset: int, n: int, /) -> bytes:
        end = min(offset + n, self.size)
        found = []
        while offset < end:
            stretch = self._stretch_at(offset, end)
            found.append(stretch.text[offset - stretch.begin : end - stretch.begin])
            offset = stretch.end
        return found[0] if len(found) == 1 else b"".join(found)

    def check_key(self) -> Cipher:
        """The keys, if they open the file: before it is written to. NoKey, WrongKey."""
        cipher = self._keys()
        parts = encrypted.parts_of(self._raw_head)
        if parts is not None and self._try(self._raw_head, parts, cipher) is None:
            self._prove(parts.key_id, [])
        return cipher

    def last_number(self, newest: int | None) -> int:
        """The number of the last line, those that cannot be opened counted in; the `newest` of a record is known.

        To be asked when the end was read. SourceError if nothing tells it.
        """
        found = self._last.get(self.size)
        if found is None and newest is None:
            raise SourceError(
                "no line of it can be opened", path=self._path, remedy="see what `rollout verify` says of it"
            )
        return sum(found) if found is not None else newest or 0

    def _is_read_from_start(self) -> bool:
        return any(stretch.begin == 0 for stretch in self._stretches) or 0 in self._first

    def _line_at_beginning(self) -> bytes:
        found: list[bytes] = []
        at, most = 0, self._limits.line_bytes
        while at < min(self.size, most):
            n = max(self._limits.first_chunk_bytes, _STEP_BYTES)
            block = self.stored.read_at(at, min(n, self.size - at))
            found.append(block)
            at += len(block)
            if b"\n" in block or not block:
                break
        return b"".join(found).partition(b"\n")[0]

    def _keys(self) -> Cipher:
        if self._cipher is None:
            self._cipher = self._given.cipher()
            if self._cipher is None:
                parts = encrypted.parts_of(self._raw_head)
                named = "" if parts is None else f" with key {parts.key_id!r}"
                remedy = f"give a Cipher with that key, or name a file of keys in ${KEYS_FILE}"
                raise NoKey(f"is encrypted{named}, and no keys are given", path=self._path, remedy=remedy)
        return self._cipher

    def _stretch_at(self, offset: int, end: int) -> _Stretch:
        """An opened stretch with that byte."""
        left = right = None
        for known in self._stretches:
            if known.begin <= offset < known.end:
                return known
            if known.end == offset:
                left = known
            elif offset < known.begin <= end and (right is None or known.begin < right.begin):
                right = known
        stop = end if right is None else right.begin
        text = self.stored.read_at(offset, stop - offset)
        begin, begins, ends = offset, True, True
        within = b"\n" not in text  # a line that is too long, if it is one beside
        if left is not None:
            begins = left.ends
        elif offset and right is not None and not right.begins and within:
            begins = False
        elif offset:
            more, begins = self._read_back(offset)
            begin, text = offset - len(more), more + text
        if right is not None:
            ends = right.begins
        elif left is not None and not left.ends and within:
            ends = stop == self.size
        elif stop < self.size and not text.endswith(b"\n"):
            more, ends = self._read_on(stop)
            text += more
        opened = self._open(text, begin, begins, ends)
        made = _Stretch(begin, begin + len(text), opened, begins, ends)
        self._stretches = [made, *self._stretches[: _KEPT - 1]]
        return made

    def _read_back(self, offset: int) -> tuple[bytes, bool]:
        """What stands ahead of a byte in its line; whether that goes back to the beginning of the line."""
        pieces: list[bytes] = []
        at, n = offset, 1
        while at and offset - at <= self._limits.line_bytes:
            n = min(n, at)
            piece = self.stored.read_at(at - n, n)
            begin = piece.rfind(b"\n") + 1
            pieces.append(piece[begin:])
            if begin:
                return b"".join(pieces[::-1]), True
            at, n = at - n, min(max(2 * n, _STEP_BYTES), max(self._limits.chunk_bytes, 1))
        return b"".join(pieces[::-1]), at == 0

    def _read_on(self, offset: int) -> tuple[bytes, bool]:
        """The rest of a line from a byte on; whether that goes on to the end of the line."""
        pieces: list[bytes] = []
        at, n = offset, _STEP_BYTES
        while at < self.size and at - offset <= self._limits.line_bytes:
            piece = self.stored.read_at(at, min(n, self.size - at))
            end = piece.find(b"\n") + 1
            pieces.append(piece[: end or len(piece)])
            if end:
                return b"".join(pieces), True
            at, n = at + len(piece), min(2 * n, max(self._limits.chunk_bytes, 1))
        return b"".join(pieces), at >= self.size

    def _open(self, text: bytes, begin: int, begins: bool, ends: bool) -> bytes:
        found = text.split(b"\n")
        offset, without = begin, 0
        before: int | None = None
        for i, line in enumerate(found):
            is_whole = (begins or i > 0) and (ends or i < len(found) - 1)
            if is_whole and (line.startswith(b"{") or line.strip(_BLANK)) and len(line) <= self._limits.line_bytes:
                opened = self._open_line(line, found)
                found[i] = opened
                number = None if opened.startswith(envelope.UNOPENED) else encrypted.ordinal_of(line)
                if number is None:
                    without += 1
                elif before is None:
                    self._first[begin] = (number, without)
                    self._check_first(begin, offset, number, without)
                else:
                    self._check(offset, before, number, without)
                if number is not None:
                    before, without = number, 0
            offset += len(line) + 1
        end = begin + len(text)
        if before is not None:
            self._last[end] = (before, without)
            if end in self._first:
                number, ahead = self._first[end]
                self._check(end, before, number, without + ahead)
        return b"\n".join(found)

    def _check_first(self, begin: int, offset: int, number: int, without: int) -> None:
        """The first number of a stretch follows that of the stretch ahead; that of a file, its base's."""
        if begin in self._last:
            before, behind = self._last[begin]
            self._check(offset, before, number, behind + without)
        elif begin == 0:
            base = base_of(self._meta)
            self._check(offset, ((base and base.ordinal) or 0) - 1, number, without)

    def _check(self, offset: int, before: int, number: int, without: int) -> None:
        if number <= before:
            self._note(offset, f"line number {number} stands behind number {before}: doubled or moved")
        elif number > before + 1 + without:
            self._note(offset, f"lines are missing: number {number} stands behind number {before}")

    def _note(self, offset: int, reason: str) -> None:
        if (offset, reason) not in self._noted:
            self._noted.add((offset, reason))
            self.damage.append((offset, reason))

    def _open_line(self, line: bytes, others: list[bytes]) -> bytes:
        parts = encrypted.parts_of(line)
        if parts is None:
            return _unopened(line, _PLAIN)
        opened = self._try(line, parts, self._keys())
        if opened is None:
            self._prove(parts.key_id, others)
            return _unopened(line, _CHANGED)
        return opened

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


def _unopened(line: bytes, why: bytes) -> bytes:
    if len(line) < _SHORTEST:
        return line
    return (envelope.UNOPENED + why).ljust(len(line))


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
    if not is_encrypted(source, min(limits.chunk_bytes, limits.first_chunk_bytes), start):
        return source
    named = None if path is None else ids.parse_file_name(path.name)
    return DecryptingSource(
        source, keys, limits, None if path is None else str(path), None if named is None else named.thread
    )


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
