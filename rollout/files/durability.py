"""When what was written is put on the disk."""

from __future__ import annotations

import enum


class Durability(enum.Enum):
    """When what was appended is put on the disk, unless `commit` asks for it."""

    RECORD = "record"
    """By every append."""
    TURN = "turn"
    """At the end of a turn."""
    NONE = "none"
    """When the operating system likes; but what a new file is made with is on the disk before it has its name."""
