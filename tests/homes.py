"""Homes full of tiny rollouts, made cheaply; and a file system that counts what is opened."""

from __future__ import annotations

import os
from pathlib import Path

from rollout.files.disk import AnyPath, ReadFile, RealFileSystem
from tests import builders as b

DAY = "2026-03-20"


def thread_id(n: int) -> str:
    return f"019d0000-0000-7000-8000-{n:012x}"


def time_of(n: int) -> str:
    """The n-th second of a day, as a file name has it."""
    return f"{DAY}T{n // 3600:02}-{n // 60 % 60:02}-{n % 60:02}"


def iso_of(n: int) -> str:
    day, _, clock = time_of(n).partition("T")
    return f"{day}T{clock.replace('-', ':')}.000Z"


def meta_of(n: int, **keys: object) -> bytes:
    return b.line("session_meta", {"id": thread_id(n), "timestamp": iso_of(n), "cwd": "/p", **keys})


def path_of(home: Path, n: int, *, part: int | None = None, archived: bool = False, at: int | None = None) -> Path:
    """Where the rollout of the n-th thread lies; `part` makes it one of a revert, `at` gives it another time."""
    folder = "archived_sessions" if archived else f"sessions/{DAY.replace('-', '/')}"
    suffix = "" if part is None else f"_{thread_id(part)}"
    return home / folder / f"rollout-{time_of(n if at is None else at)}-{thread_id(n)}{suffix}.jsonl"


def put_data(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def put(home: Path, n: int, *lines: bytes, archived: bool = False, **keys: object) -> Path:
    """The rollout of the n-th thread: its session_meta with `keys`, then the lines."""
    return put_data(path_of(home, n, archived=archived), b.log(meta_of(n, **keys), *lines))


def grow(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b.log(*lines))


def put_many(home: Path, count: int) -> None:
    """So many rollouts of one user's message each; nothing but what a list needs."""
    folder = path_of(home, 0).parent
    folder.mkdir(parents=True)
    for n in range(count):
        fd = os.open(path_of(home, n), os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, b.log(meta_of(n), b.user(f"question {n}")))
        os.utime(fd, (1.7e9 + n, 1.7e9 + n))  # long ago: the index need not ask whether it has just changed
        os.close(fd)


class CountingFileSystem(RealFileSystem):
    """Counts the rollouts that were opened."""

    def __init__(self, root: Path | None = None) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open_read(self, path: AnyPath) -> ReadFile:
        if "rollout-" in os.fspath(path):
            self.opened.append(os.fspath(path))
        return super().open_read(path)
