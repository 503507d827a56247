"""Seals a plain rollout as `.jsonl.zst`, and unseals it.

A sealed file holds the text of the plain one to the last byte, a torn end too, which is mended when the log is opened
for append (and which no reader sees either way). It is Zstandard frames that stand alone, with content size and
checksum: about 1 MiB of text each, cut at line ends; a longer line makes a longer frame, and one of more than 8 MiB
several, so that a reader never has to hold more. Behind them lies a seek table (the seekable format of the Zstandard
project). An empty file is one empty frame. The sealed file has the time of the plain one, by which lists are sorted,
and is 0600.

Of the two files of a rollout the plain one counts while it is there. The one is made beside the other as is told in
docs/storage.md, and what a crash leaves goes with the next seal, unseal or opening for append. A new file is locked
before it has its name. A program that takes no lock must not be writing: what it writes while the file is sealed is
noticed, but for the last moment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

from rollout.errors import Conflict, NotARollout, UsageError, WriteError
from rollout.files.disk import AppendFile, FileSystem, ReadFile
from rollout.files.plain import FileSource
from rollout.files.port import Holder, Progress, explained
from rollout.files.sealed.reader import (
    SEEK_FOOTER,
    SEEK_FOOTER_MAGIC,
    SEEK_TABLE_MAGIC,
    BadFrame,
    Frames,
    SealedSource,
    is_sealed,
    twin,
)
from rollout.files.staging import HALF_MADE, hidden, replace, status_of
from rollout.format import lines
from rollout.limits import DEFAULT, MIB, Limits

FRAME_BYTES = MIB
LONGEST_FRAME_BYTES = DEFAULT.frame_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class SealResult:
    """A sealed rollout: its file, how many bytes its text has, how many the file."""

    path: Path
    plain_bytes: int
    sealed_bytes: int


def standing(fs: FileSystem, path: Path) -> Path:
    """The file of the rollout at `path` that counts: the plain one, or the sealed one where that alone is there."""
    other = twin(path)
    if other is None or (path.suffix != ".zst" and status_of(fs, path) is not None) or status_of(fs, other) is None:
        return path
    return other


def seal(
    fs: FileSystem,
    path: Path,
    *,
    held_by: Holder,
    level: int = 3,
    frame_bytes: int = FRAME_BYTES,
    progress: Progress | None = None,
) -> SealResult:
    """Puts a sealed file in the place of the plain one; of a sealed one it only tells the sizes.

    `level` is of Zstandard, 1 to 22. UsageError (another level, or a name that does not end in `.jsonl`), NotFound,
    NotARollout, Locked, Conflict (somebody wrote meanwhile), WriteError: the plain file is there still.
    """
    if isinstance(level, bool) or not 1 <= level <= zstandard.MAX_COMPRESSION_LEVEL:
        raise UsageError(f"{level!r} is no level", remedy=f"give one from 1 to {zstandard.MAX_COMPRESSION_LEVEL}")
    path = standing(fs, path)
    with explained(path, "sealed"), contextlib.ExitStack() as held:
        if (found := _measured(fs, path)) is not None:
            _sweep(fs, path, held, held_by)
            return found
        target = twin(path)
        if target is None or target.suffix != ".zst":
            raise UsageError("its name does not end in .jsonl", path=path, remedy="give it one that does")
        plain = _locked(fs, path, held, held_by)
        plain.sync()  # or a crash could leave it cut short, beside a sealed one that then does not count
        if _is_leftover(fs, target, plain, held, held_by) is False:
            raise WriteError("a sealed file holds another text", path=target, remedy="move one of the two away")
        before = (plain.size(), fs.status(path).mtime_ns)
        tell = _Steps(progress, 2 * before[0])

        def check(name: Path) -> None:
            with contextlib.closing(fs.open_read(name)) as new:
                made = SealedSource(FileSource(new))
                texts = tell.over(lines.chunks(made, 0, made.size, FRAME_BYTES))
                same = _is_prefix(texts, plain) == made.size == before[0] and not made.damage
            _check_unchanged(fs, path, plain, before)
            if not same:
                remedy = "the plain file is as it was; look after the disk"
                raise WriteError("cannot be sealed: the sealed file reads back another text", path=path, remedy=remedy)

        texts = lines.stretches(FileSource(plain), 0, before[0], frame_bytes, LONGEST_FRAME_BYTES)
        frames = _frames(tell.over(texts if before[0] else [b""]), level)
        replace(fs, target, frames, check=check, mtime_ns=before[1], held=held)
        _check_unchanged(fs, path, plain, before)
        fs.unlink(path)
        fs.sync_dir(target.parent)
        return SealResult(target, before[0], fs.status(target).size)


def unseal(
    fs: FileSystem,
    path: Path,
    *,
    held_by: Holder,
    limits: Limits = DEFAULT,
    progress: Progress | None = None,
) -> Path:
    """Puts the plain file in the place of the sealed one, whoever sealed it; its path. A plain one is left as it is.

    NotFound, NotARollout, Locked; WriteError with the offset of the frame if the sealed file is damaged, or if there
    is no room: it is there still.
    """
    path = standing(fs, path)
    other = twin(path)
    with explained(path, "unsealed"), contextlib.ExitStack() as held:
        with contextlib.closing(fs.open_read(path)) as file:
            is_plain = not is_sealed(file.read_at(0, 4))
        if is_plain and path.suffix == ".zst":
            raise NotARollout("holds no Zstandard frame", path=path, remedy="if it is plain, take .zst off its name")
        if is_plain:
            if other is None or status_of(fs, other) is None:
                _sweep(fs, path, held, held_by)
                return path
            plain = _locked(fs, path, held, held_by)
            if _is_leftover(fs, other, plain, held, held_by):  # a sealed file with another text stays
                plain.sync()  # neither its last bytes nor its name may be on the disk yet
                fs.sync_dir(path.parent)
                fs.unlink(other)
                fs.sync_dir(path.parent)
            return path
        if other is None or path.suffix != ".zst":
            raise UsageError("is sealed, but its name does not end in .jsonl.zst", path=path, remedy="rename it")
        sealed = _locked(fs, path, held, held_by)
        if status_of(fs, other) is not None:  # somebody else was faster
            return other
        tell = _Steps(progress, 2 * sealed.size())

        def check(name: Path) -> None:
            with contextlib.closing(fs.open_read(name)) as new:
                if _is_prefix(_texts(path, sealed, limits, tell), new) == new.size():
                    return
            remedy = "the sealed file is as it was; look after the disk"
            raise WriteError("cannot be unsealed: the plain file reads back another text", path=path, remedy=remedy)

        texts = _texts(path, sealed, limits, tell)
        replace(fs, other, texts, check=check, mtime_ns=fs.status(path).mtime_ns, held=held)
        tell.add(2 * sealed.size())  # what was not looked at counts as done
        fs.unlink(path)
        fs.sync_dir(other.parent)
        return other


class _Steps:
    """Counts what is done, and tells."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, n: int) -> None:
        self._done = min(self._done + n, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def over(self, texts: Iterable[bytes]) -> Iterator[bytes]:
        """The texts, each of which counts as done when the next one is asked for."""
        for text in texts:
            yield text
            self.add(len(text))


def _measured(fs: FileSystem, path: Path) -> SealResult | None:
    """The sizes of a sealed file; None for a plain one."""
    with contextlib.closing(fs.open_read(path)) as file:
        if not is_sealed(file.read_at(0, 4)):
            return None
        with contextlib.closing(SealedSource(FileSource(file), path=path)) as source:
            return SealResult(path, source.size, file.size())


def _locked(fs: FileSystem, path: Path, held: contextlib.ExitStack, held_by: Holder) -> AppendFile:
    """Open, locked until `held` is over."""
    file = fs.open_append(path)
    held.callback(file.close)
    file.lock(held_by)
    return file


def _frames(texts: Iterable[bytes], level: int) -> Iterator[bytes]:
    """The sealed file of the texts of its frames."""
    packer = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
    table = bytearray()
    for text in texts:
        packed = packer.compress(text)
        table += struct.pack("<II", len(packed), len(text))
        yield packed
    footer = SEEK_FOOTER.pack(len(table) // 8, 0, SEEK_FOOTER_MAGIC)
    yield struct.pack("<II", SEEK_TABLE_MAGIC, len(table) + len(footer)) + table + footer


def _check_unchanged(fs: FileSystem, path: Path, plain: ReadFile, before: tuple[int, int]) -> None:
    if (plain.size(), fs.status(path).mtime_ns) != before:
        remedy = "seal it when nobody writes: the plain file counts as long as it is there"
        raise Conflict("has changed while it was sealed", path=path, remedy=remedy)


def _texts(path: Path, sealed: AppendFile, limits: Limits, tell: _Steps) -> Iterator[bytes]:
    """All text. WriteError at the first damage; a file that ends before its first frame is none."""
    source, done = FileSource(sealed), 0
    try:
        for text in Frames(source, limits).texts():
            yield text
            tell.add(source.bytes_read - done)
            done = source.bytes_read
    except BadFrame as bad:
        remedy = "read it as it is, fork it with copy=True, or restore it from a copy"
        raise WriteError(f"cannot be unsealed: {bad.reason}", path=path, offset=bad.offset, remedy=remedy) from None


def _is_prefix(texts: Iterable[bytes], plain: ReadFile) -> int | None:
    """How many bytes the texts have if a plain file begins with them, else None."""
    at = 0
    for text in texts:
        if plain.read_at(at, len(text)) != text:
            return None
        at += len(text)
    return at


def _sweep(fs: FileSystem, path: Path, held: contextlib.ExitStack, held_by: Holder) -> None:
    """Takes away what a crash in a seal or an unseal left half made beside the file that is there."""
    names = [hidden(found, HALF_MADE) for found in (path, twin(path)) if found is not None]
    if left := [name for name in names if status_of(fs, name) is not None]:
        _locked(fs, path, held, held_by)
        for name in left:
            with contextlib.suppress(FileNotFoundError):
                fs.unlink(name)


def _is_leftover(
    fs: FileSystem, sealed: Path, plain: ReadFile, held: contextlib.ExitStack, held_by: Holder
) -> bool | None:
    """Whether a crash in a seal or an unseal left the sealed file beside the plain one, which may have grown since.

    It is locked from now on. None: there is none.
    """
    try:
        file = _locked(fs, sealed, held, held_by)
        return _is_prefix(Frames(FileSource(file)).texts(), plain) is not None
    except FileNotFoundError:
        return None
    except BadFrame:
        return False
