"""Seals a plain rollout as `.jsonl.zst`, and unseals it.

A sealed file holds the text of the plain one to the last byte, a torn end too, which is mended when the log is opened
for append (and which no reader sees either way). It is Zstandard frames that stand alone, with content size and
checksum: about 1 MiB of text each, cut at line ends; a longer line makes a longer frame, and one of more than 8 MiB
several, so that a reader never has to hold more. Behind them lies a seek table (the seekable format of the Zstandard
project). An empty file is one empty frame. The sealed file has the time of the plain one, by which lists are sorted,
and is 0600.

Of the two files of a rollout the plain one counts while it is there. So sealing writes beside under another name,
syncs, reads back and compares, renames, syncs the name, and only then removes the plain file; unsealing likewise. In
every state that a crash can leave, the plain file or the sealed one is there, whole; what else it leaves the next
seal, unseal or opening for append takes away.

Whoever changes one of the two files holds the locks of both: a new one is locked before it has its name. A program
that takes no lock must not be writing: what it writes while the file is sealed is noticed, but for the last moment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard

from rollout.errors import Conflict, NotARollout, UsageError, WriteError
from rollout.files.disk import AppendFile, FileSystem, ReadFile
from rollout.files.port import Holder, explained
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
from rollout.files.staging import HALF_MADE, hidden, new_file, status_of
from rollout.limits import DEFAULT, MIB, Limits

FRAME_BYTES = MIB
LONGEST_FRAME_BYTES = DEFAULT.frame_bytes
Progress = Callable[[int, int], None]
"""Called now and then with how many bytes are done, of how many (each is counted twice: written, and read back)."""


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
        _check_leftover(fs, target, plain, held, held_by)
        before = (plain.size(), fs.status(path).mtime_ns)
        packer = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
        tell = _Steps(progress, 2 * before[0])
        with new_file(fs, target) as (new, name):
            held.callback(new.close)
            _write_frames(new, plain, before[0], packer, frame_bytes, tell)
            new.set_mtime(before[1])
            new.sync()
            same = _reads_as(new, plain, before[0], tell)
            _check_unchanged(fs, path, plain, before)
            if not same:
                remedy = "the plain file is as it was; look after the disk"
                raise WriteError("cannot be sealed: the sealed file reads back another text", path=path, remedy=remedy)
            fs.rename(name, target)
        fs.sync_dir(target.parent)
        _check_unchanged(fs, path, plain, before)
        fs.unlink(path)
        fs.sync_dir(target.parent)
        return SealResult(target, before[0], new.size())


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
        if _is_plain(fs, path):
            if other is not None and status_of(fs, other) is not None:
                _drop_leftover(fs, path, other, held, held_by)
            else:
                _sweep(fs, path, held, held_by)
            return path
        if other is None or path.suffix != ".zst":
            raise UsageError("is sealed, but its name does not end in .jsonl.zst", path=path, remedy="rename it")
        sealed = _locked(fs, path, held, held_by)
        if status_of(fs, other) is not None:  # somebody else was faster
            return other
        tell = _Steps(progress, 2 * sealed.size())
        with new_file(fs, other) as (new, name):
            held.callback(new.close)
            try:
                for text in _texts(sealed, limits, tell):
                    new.append(text)
                new.set_mtime(fs.status(path).mtime_ns)
                new.sync()
                same = _is_prefix(_texts(sealed, limits, tell), new) == new.size()
            except BadFrame as bad:
                raise _damaged(path, bad) from None
            if not same:
                remedy = "the sealed file is as it was; look after the disk"
                raise WriteError("cannot be unsealed: the plain file reads back another text", path=path, remedy=remedy)
            tell.finish()
            fs.rename(name, other)
        fs.sync_dir(other.parent)
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

    def finish(self) -> None:
        """What was not looked at counts as done."""
        self.add(self._total)


def _measured(fs: FileSystem, path: Path) -> SealResult | None:
    """The sizes of a sealed file; None for a plain one."""
    with contextlib.closing(fs.open_read(path)) as file:
        if not is_sealed(file.read_at(0, 4)):
            return None
        with contextlib.closing(SealedSource(file, path=str(path))) as source:
            return SealResult(path, source.size, file.size())


def _is_plain(fs: FileSystem, path: Path) -> bool:
    """NotARollout for a file that is named as a sealed one and is none."""
    with contextlib.closing(fs.open_read(path)) as file:
        if is_sealed(file.read_at(0, 4)):
            return False
    if path.suffix == ".zst":
        raise NotARollout("holds no Zstandard frame", path=path, remedy="if it is plain, take .zst off its name")
    return True


def _locked(fs: FileSystem, path: Path, held: contextlib.ExitStack, held_by: Holder) -> AppendFile:
    """Open, locked until `held` is over."""
    file = fs.open_append(path)
    held.callback(file.close)
    file.lock(held_by)
    return file


def _write_frames(
    new: AppendFile, plain: ReadFile, size: int, packer: zstandard.ZstdCompressor, frame_bytes: int, tell: _Steps
) -> None:
    table = bytearray()
    for text in _cut(plain, size, frame_bytes):
        packed = packer.compress(text)
        new.append(packed)
        table += struct.pack("<II", len(packed), len(text))
        tell.add(len(text))
    footer = SEEK_FOOTER.pack(len(table) // 8, 0, SEEK_FOOTER_MAGIC)
    new.append(struct.pack("<II", SEEK_TABLE_MAGIC, len(table) + len(footer)) + table + footer)


def _cut(plain: ReadFile, size: int, frame_bytes: int) -> Iterator[bytes]:
    """The first `size` bytes in the texts of frames; at least one."""
    at = 0
    while at < size or not size:
        text = plain.read_at(at, min(frame_bytes, size - at))
        if at + len(text) < size:
            end = text.rfind(b"\n") + 1
            text = text[:end] if end else _to_line_end(plain, at, size, text)
        yield text
        if not text:
            return  # an empty file, or one that was cut meanwhile: who reads back will see
        at += len(text)


def _to_line_end(plain: ReadFile, at: int, size: int, text: bytes) -> bytes:
    """`text`, which stands at `at`, and what follows up to a line end or to the longest frame."""
    pieces, length = [text], len(text)
    stop = min(size - at, LONGEST_FRAME_BYTES)
    while length < stop and (piece := plain.read_at(at + length, min(len(text), stop - length))):
        end = piece.find(b"\n") + 1
        pieces.append(piece[:end] if end else piece)
        length += len(pieces[-1])
        if end:
            break
    return b"".join(pieces)


def _reads_as(new: ReadFile, plain: ReadFile, size: int, tell: _Steps) -> bool:
    """Whether a reader finds in the sealed file the first `size` bytes of the plain one, and no damage."""
    source = SealedSource(new)
    at = 0
    while at < source.size:
        text = source.read_at(at, FRAME_BYTES)
        if not text or text != plain.read_at(at, len(text)):
            break
        at += len(text)
        tell.add(len(text))
    return at == source.size == size and not source.damage


def _check_unchanged(fs: FileSystem, path: Path, plain: ReadFile, before: tuple[int, int]) -> None:
    if (plain.size(), fs.status(path).mtime_ns) != before:
        remedy = "seal it when nobody writes: the plain file counts as long as it is there"
        raise Conflict("has changed while it was sealed", path=path, remedy=remedy)


def _texts(sealed: AppendFile, limits: Limits, tell: _Steps) -> Iterator[bytes]:
    """All text; BadFrame. A file that ends before its first frame is none."""
    frames = Frames(sealed, limits)
    told = 0
    for text in frames.texts():
        yield text
        tell.add(frames.bytes_read - told)
        told = frames.bytes_read


def _damaged(path: Path, bad: BadFrame) -> WriteError:
    remedy = "read it as it is, fork it with copy=True, or restore it from a copy"
    return WriteError(f"cannot be unsealed: {bad.reason}", path=path, offset=bad.offset, remedy=remedy)


def _is_prefix(texts: Iterator[bytes], plain: ReadFile) -> int | None:
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


def _is_leftover(sealed: AppendFile, plain: ReadFile) -> bool:
    """Whether a crash in a seal or an unseal left it beside the plain file, which may have grown since."""
    with contextlib.suppress(BadFrame):
        return _is_prefix(Frames(sealed).texts(), plain) is not None
    return False


def _check_leftover(fs: FileSystem, target: Path, plain: ReadFile, held: contextlib.ExitStack, held_by: Holder) -> None:
    """Locks a sealed file that is there already. WriteError if it holds what the plain one does not."""
    with contextlib.suppress(FileNotFoundError):
        if not _is_leftover(_locked(fs, target, held, held_by), plain):
            raise WriteError("a sealed file holds another text", path=target, remedy="move one of the two away")


def _drop_leftover(fs: FileSystem, path: Path, sealed: Path, held: contextlib.ExitStack, held_by: Holder) -> None:
    """Takes away what a crash left; a sealed file with another text stays: the plain one counts."""
    plain = _locked(fs, path, held, held_by)
    with contextlib.suppress(FileNotFoundError):
        if _is_leftover(_locked(fs, sealed, held, held_by), plain):
            plain.sync()  # neither its last bytes nor its name may be on the disk yet
            fs.sync_dir(path.parent)
            fs.unlink(sealed)
            fs.sync_dir(path.parent)
