"""Files that continue each other, in a home."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import zstandard

import rollout
from tests import builders as b

THREADS = [f"019d0000-0000-7000-8000-00000000000{n}" for n in range(8)]
PARTS = [f"019e0000-0000-7000-8000-00000000000{n}" for n in range(8)]
PREFIX = b'{"timestamp":"%b",' % b.TIME.encode()


@dataclasses.dataclass
class Family:
    """Files of one lineage in a home, oldest first."""

    home: Path
    files: list[bytes] = dataclasses.field(default_factory=list)
    ends: list[int] = dataclasses.field(default_factory=list)
    """How many bytes of each file the next one continues."""
    paths: list[Path] = dataclasses.field(default_factory=list)

    def add(self, data: bytes, thread: str, part: str | None = None, *, sealed: bool = False, day: int = 20) -> Path:
        folder = self.home / "sessions" / "2026" / "03" / f"{day:02}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"rollout-2026-03-{day:02}T10-00-0{len(self.files)}-{thread}"
        path = folder / f"{name}{f'_{part}' if part else ''}.jsonl{'.zst' if sealed else ''}"
        path.write_bytes(zstandard.ZstdCompressor(level=1).compress(data) if sealed else data)
        self.files.append(data)
        self.paths.append(path)
        return path

    @property
    def bases(self) -> list[bytes]:
        return [data[:end] for data, end in zip(self.files[:-1], self.ends, strict=True)]


def base_of(thread: str, end: object, ordinal: object = None) -> dict[str, Any]:
    return {"thread_id": thread, "end_byte_offset": end, "end_ordinal_exclusive": ordinal}


def numbered(lines: list[bytes], first: int) -> list[bytes]:
    """The lines with ordinals, where they have the usual beginning."""
    return [
        line.replace(PREFIX, PREFIX + b'"ordinal":%d,' % ordinal, 1) if line.startswith(PREFIX) else line
        for ordinal, line in enumerate(lines, first)
    ]


def turn(n: int) -> list[bytes]:
    return [
        b.started(f"t{n}"),
        b.context(f"t{n}", f"m{n}"),
        b.user(f"q{n}"),
        b.assistant(f"a{n}"),
        b.completed(f"t{n}"),
    ]


SOURCE = [b.session_meta(THREADS[0]), *turn(1), *turn(2)]
UP_TO_1 = len(b.log(*SOURCE[:6]))


def fork(home: Path, base: object, *lines: bytes, source: bytes | None = None) -> Path:
    """A fork of a source of two turns, after the first of them."""
    family = Family(home)
    if source is not None:
        family.add(source, THREADS[0])
    return family.add(b.log(b.session_meta(THREADS[1], history_base=base), *lines), THREADS[1])


def texts(state: rollout.State) -> list[str]:
    return [item["content"][0]["text"] for item in state.history]


NUMBERED = numbered(SOURCE, 0)
END = len(b.log(*NUMBERED[:6]))  # behind the line of ordinal 5


def assert_base_is_missing(path: Path, home: Path) -> None:
    """It is told once, everywhere, and the file's own lines are read."""
    state = rollout.reconstruct(path, home=home)
    assert texts(state)[-2:] == ["q3", "a3"]
    assert [damage.kind for damage in state.damage] == ["base"]
    report = rollout.verify(path, home=home)
    assert [damage.kind for damage in report.damage] == ["base"]
    assert report.damaged_lines == 1
    assert [damage.kind for damage in rollout.explain(path, home=home).damage] == ["base"]
