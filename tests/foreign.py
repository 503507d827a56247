"""Files that are no rollouts, and what tells whether anything has touched them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from tests import builders as b

UUID = "019f0000-0000-7000-8000-00000000000a"
ROLLOUT_NAME = f"rollout-2026-03-20T10-00-00-{UUID}.jsonl"
A_LOG = b.log(b.session_meta(), b.user("q"))
FOREIGN: dict[str, Callable[[Path], object]] = {
    "notes": lambda path: path.write_text("buy milk\nfix the tests"),
    "notes.txt": lambda path: path.write_text("buy milk\n"),
    "empty": lambda path: path.touch(),
    "empty.jsonl": lambda path: path.touch(),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 20),
    "nul.jsonl": lambda path: path.write_bytes(bytes(5000)),
    "broken.jsonl.zst": lambda path: path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(range(256))),
    "program.jsonl": lambda path: path.write_bytes(_lines({"level": "info", "msg": "started"})),
    "events.jsonl": lambda path: path.write_bytes(_lines({"id": UUID, "timestamp": "2026-03-20T10:00:00Z", "x": 1})),
    "ids.jsonl": lambda path: path.write_bytes(_lines({"id": UUID, "timestamp": "2026-03-20T10:00:00Z"})),
    "jobs.jsonl": lambda path: path.write_bytes(
        _lines({"id": "7", "timestamp": "now", "instructions": "run", "git": {}})
    ),
    "items.jsonl": lambda path: path.write_bytes(_lines({"type": "message", "role": "user", "content": "x"})),
    "records.jsonl": lambda path: path.write_bytes(b.log(b.user("q"), b.assistant("a"))),
    "quoting.md": lambda path: path.write_bytes(b"# A log that I found\n" + A_LOG),
    "nameless.jsonl": lambda path: path.write_bytes(b.log(b.line("session_meta", {"cwd": "/p"}), b.user("q"))),
    "rollout-001.jsonl": lambda path: path.write_bytes(_lines({"reward": 0.5})),
    f"{ROLLOUT_NAME}.bak": lambda path: path.write_text("a copy of another program"),
    "folder": Path.mkdir,
    ROLLOUT_NAME.replace("10-00-00", "10-00-01"): Path.mkdir,
    "pipe": os.mkfifo,
    "link": lambda path: path.symlink_to(_target(path)),
    ROLLOUT_NAME.replace("10-00-00", "10-00-02"): lambda path: path.symlink_to(_target(path)),
    "dangling.jsonl": lambda path: path.symlink_to("nowhere"),
}
"""How each of them is made, by its name."""
OWN: dict[str, bytes] = {
    ROLLOUT_NAME: A_LOG,
    ROLLOUT_NAME.replace("10-00-00", "10-00-03"): b"",
    ROLLOUT_NAME.replace("10-00-00", "10-00-04"): bytes(4096),
    "copy.jsonl": A_LOG,
    "copy": b"\xef\xbb\xbf\n\0\0" + A_LOG,
    "of-2025.jsonl": b.log(b.bare_meta(UUID, instructions=None), b.bare_state()),
}
"""Files that are rollouts, by their names or by how they begin: their bytes."""


def _lines(value: object) -> bytes:
    return (json.dumps(value) + "\n").encode() * 3


def _target(link: Path) -> Path:
    """A rollout that a link leads to."""
    target = link.parent / "real" / ROLLOUT_NAME
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(A_LOG)
    return target


def make_foreign(folder: Path, name: str) -> Path:
    path = folder / name
    FOREIGN[name](path)
    return path


def contents(folder: Path) -> dict[str, object]:
    """All that lies below a folder: names, kinds, bytes and times."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else path.readlink() if path.is_symlink() else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, status.st_ino, data)
    return found
