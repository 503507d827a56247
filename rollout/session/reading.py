"""Read any rollout: `reconstruct`, `turns`, `records`, `explain`, `verify`.

A *source* is a path, bytes-like data, a thread id or the beginning of one, or `-1`, `-2`, … for the newest threads of
the home. Plain and sealed files are read alike, and never written. Damage in the data is never an exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from rollout.files.encrypted.keys import Cipher
from rollout.files.source import AnySource, find
from rollout.fold.turn_list import Turn
from rollout.format.records import Segment
from rollout.limits import DEFAULT, Limits
from rollout.session.explanation import Explanation
from rollout.session.moments import At, origin_at
from rollout.session.record import Record, read_records
from rollout.session.state import State, read_state, read_turns
from rollout.session.verification import Report, examine

Progress = Callable[[int, int], None]


def reconstruct(
    source: AnySource,
    *,
    at: At | None = None,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> State:
    """The state to go on from (S1 to S5), read newest line first and no further than the answer needs.

    Args:
        source: A path, bytes, a thread id or the beginning of one, or -1, -2, … for the newest threads of the home.
        at: As it was then: a turn's id (as that turn ended), `at_line(n)`, `at_ordinal(n)` or a byte offset.
        home: The home that ids, positions and bases are looked up in: else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex.
        limits: The most that is read and held.
        cipher: The keys of an encrypted rollout: else those in the file $ROLLOUT_KEYS_FILE.
        progress: Called with the bytes that were read of a file, and its size, where the work can be long.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
        UsageError: `at` is no moment that a log can have.
    """
    return read_state(origin_at(find(source, home, limits, cipher), at, progress), progress)


def turns(
    source: AnySource,
    *,
    at: At | None = None,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> tuple[Turn, ...]:
    """All turns (S1), oldest first, those that were rolled back too: without a state. Reads everything.

    Args:
        source: As in `reconstruct`, and so is `at`.
        at: As it was then.
        home: The home that ids, positions and bases are looked up in: else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex.
        limits: The most that is read and held.
        cipher: The keys of an encrypted rollout: else those in the file $ROLLOUT_KEYS_FILE.
        progress: Called with the bytes that were read of a file, and its size, where the work can be long.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
        UsageError: `at` is no moment that a log can have.
    """
    return read_turns(origin_at(find(source, home, limits, cipher), at, progress), progress)


def records(
    source: AnySource,
    *,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
) -> Iterator[Record]:
    """Every record of one file (its bases not included), oldest first and lossless: all `raw` joined are the file.

    Args:
        source: As in `reconstruct`.
        home: The home that ids, positions and bases are looked up in: else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex.
        limits: The most that is read and held.
        cipher: The keys of an encrypted rollout: else those in the file $ROLLOUT_KEYS_FILE.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
    """
    origin = find(source, home, limits, cipher)
    with origin.opened() as lineage:
        text = lineage.opened[0].source
        yield from read_records([Segment(text, text.size)], limits)


def explain(
    source: AnySource,
    *,
    at: At | None = None,
    with_turns: bool = False,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """For each line of the file and its bases, whether the model sees it, and why not (S2, S3). Reads everything.

    Args:
        source: As in `reconstruct`, and so is `at`.
        at: As it was then.
        with_turns: `Explanation.turns` will be asked for: the same pass over the log gathers them.
        home: The home that ids, positions and bases are looked up in: else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex.
        limits: The most that is read and held.
        cipher: The keys of an encrypted rollout: else those in the file $ROLLOUT_KEYS_FILE.
        progress: Called with the bytes that were read of a file, and its size, where the work can be long.

    Returns:
        The lines, to be iterated over as often as is wanted, and their records.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
        UsageError: `at` is no moment that a log can have.
    """
    return Explanation(origin_at(find(source, home, limits, cipher), at, progress), progress, with_turns=with_turns)


def verify(
    source: AnySource,
    *,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> Report:
    """All damage of one file, and whether its bases are there. Reads everything.

    Args:
        source: As in `reconstruct`.
        home: The home that ids, positions and bases are looked up in: else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex.
        limits: The most that is read and held.
        cipher: The keys of an encrypted rollout: else those in the file $ROLLOUT_KEYS_FILE.
        progress: Called with the bytes that were read of a file, and its size, where the work can be long.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
    """
    return examine(find(source, home, limits, cipher), progress)
