"""Every limit in one place. Units last in the name; bytes unless said otherwise."""

from __future__ import annotations

import dataclasses

KIB = 1024
MIB = 1024 * KIB


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What a reader accepts. Pass another one to any reading function.

    A line longer than `line_bytes` is damage, as is one nested deeper than `depth`.
    """

    line_bytes: int = 256 * MIB
    """Longest line that is decoded."""
    depth: int = 128
    """Deepest nesting of JSON objects and arrays in a line; the outermost object is 1."""
    first_chunk_bytes: int = 64 * KIB
    """First read from the end of a file; small, so that a short answer costs little."""
    chunk_bytes: int = 256 * KIB
    """Later reads: what stays in a processor's cache while its lines are looked at."""
    head_bytes: int = MIB
    """How far from the start of a file the session meta is looked for."""
    frame_bytes: int = 8 * MIB
    """Largest unpacked frame of a sealed file that is held in memory; a larger one goes through a temporary file."""
    expansion: int = 1000
    """How many times larger than its packed bytes (plus 1 MiB) the text of a sealed frame may be."""
    lineage_depth: int = 1000
    """Longest chain of bases that is followed."""


DEFAULT = Limits()

LEGACY_COMPACTION_USER_TOKENS = 20_000
"""S3: what an old compaction keeps of the users' texts."""
BYTES_PER_TOKEN = 4
"""The estimate that Codex and this project cut texts by."""

TURN_TEXT_CHARACTERS = 1000
"""How much of a user's text a turn tells of itself."""

NAME_CHARACTERS = 200
"""Longest name of a thread."""

LABEL_TAGS = 64
"""How many tags a record can have."""
TAG_KEY_CHARACTERS = 128
TAG_VALUE_CHARACTERS = 1024

SEARCH_TEXT_CHARACTERS = 1_000_000
"""How much of one record's text is searched."""
QUERY_CHARACTERS = 10_000
QUERY_WORDS = 100
SNIPPET_CHARACTERS = 200

DEFAULT_SESSIONS = 20
"""How many sessions an agent is told of."""
DEFAULT_BUDGET_BYTES = 24_000
"""How much of another session an agent reads."""
