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
    spare_text_bytes: int | None = None
    """A sealed file may hold so much text, and 128 bytes for each of its own; TooLarge if it holds more. None: any."""
    spare_lines: int | None = None
    """A file may hold so many lines, and one for each 100 bytes of text (of a sealed one, of 25 times its own bytes).

    TooLarge if it holds more. None: any number.
    """
    spare_odd_lines: int | None = None
    """So many lines that are blank or damaged are taken in for an index, and one for each record. None: any number."""

    def most_text_bytes(self, packed_bytes: int) -> int | None:
        """How much text a sealed file of that size may hold."""
        return None if self.spare_text_bytes is None else self.spare_text_bytes + 128 * packed_bytes

    def most_lines(self, text_bytes: int) -> int | None:
        """How many lines so much text may be."""
        return None if self.spare_lines is None else self.spare_lines + text_bytes // 100


DEFAULT = Limits()
USUAL_EXPANSION = 25
"""Sealed sessions of ordinary lines unpack to 4 to 25 times their size; those of long repeated ones to 100 times."""
LISTED = dataclasses.replace(DEFAULT, spare_text_bytes=1024 * MIB, spare_lines=1_000_000, spare_odd_lines=10_000)
"""What one file may cost a list: about two seconds, and beyond that what its size on the disk pays for.

A line costs about a microsecond, and so does a KiB of it. The shortest sessions that programs have written have 135
bytes a line, real ones 500 and more, and the most that one was ever packed is 100 to 1; so these are all read whole,
those of 10 GB too. A file that goes beyond it was made to be large: it has next to nothing to tell for what it costs.
"""

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
