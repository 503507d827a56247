"""Where logs lie: a new one, and what an old one goes on from."""

from __future__ import annotations

import datetime
from pathlib import Path

from rollout import ids
from rollout.errors import UsageError
from rollout.files import layout as homes
from rollout.files.source import Origin
from rollout.session.environment import Ports


def origin_of(path: Path, ports: Ports, size: int | None = None) -> Origin:
    """The first `size` bytes of a log, and its bases in its home."""
    home = ports.home or homes.home_of(path) or homes.default_home()
    return Origin(None, path, home, size=size, fs=ports.fs, keys=ports.keys)


def new_path(ports: Ports, thread: str, *, beside: Path | None = None) -> Path:
    """Where a new log lies: in the home, by its day (UTC); `beside` another one that lies in none."""
    now = datetime.datetime.fromtimestamp(ports.clock(), datetime.UTC)
    name = ids.file_name(ids.ThreadId(thread), now)
    if ports.home is not None:
        return homes.day_folder(ports.home, f"{now:%Y-%m-%d}") / name
    if beside is None:
        raise UsageError("a new log needs a home", remedy="make it with Store(home).create()")
    return beside.parent / name
