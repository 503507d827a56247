"""What a home holds, as JSON documents for `Output.print_json`; `documents` says what their keys are to scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollout_cli.documents import array, encode, name
from rollout_cli.homes import Deed, thread_of

if TYPE_CHECKING:
    import rollout

ROW_KEYS = (
    *("id", "path", "name", "first_message", "cwd", "git_branch", "model_provider", "model", "source", "originator"),
    *("created", "updated", "turns", "messages", "tokens", "bytes", "archived", "sealed", "forked_from", "parent"),
    *("damaged", "session_ids", "trouble", "files"),
)
HIT_KEYS = (
    *("id", "name", "path", "turn_id", "kind", "line", "offset", "timestamp", "snippet", "matches", "status"),
    "session_id",
)


def row(row: rollout.SessionRow) -> dict[str, Any]:
    """One session of a list."""
    return _taken(row, ROW_KEYS)


def listing(
    rows: Iterable[rollout.SessionRow], cursor: str | None, left_out: Mapping[str, int], notes: Iterable[Any]
) -> Iterator[bytes]:
    """`rollout ls --json`: {rows, cursor, left_out: {subagents, forks}, notes: [{path, what}]}."""
    yield b'{"rows":'
    yield from array(encode(row(each)) for each in rows)
    rest = {"cursor": cursor, "left_out": dict(left_out), "notes": _notes(notes)}
    yield from (b"," + encode(key) + b":" + encode(value) for key, value in rest.items())
    yield b"}"


def hits(hits: Iterable[rollout.Hit], cursor: str | None, notes: Iterable[Any]) -> Iterator[bytes]:
    """`rollout search --json`: {hits, cursor, notes}; `matches` are pairs of characters in the snippet."""
    yield b'{"hits":'
    yield from array(encode(_taken(hit, HIT_KEYS)) for hit in hits)
    yield b',"cursor":' + encode(cursor) + b',"notes":' + encode(_notes(notes)) + b"}"


def tree(nodes: Iterable[tuple[int, str | None, rollout.SessionTree]]) -> Iterator[bytes]:
    """`rollout tree --json`: an array, each node before its children: {depth, of, relation, note, row}."""
    return array(
        encode({"depth": depth, "of": above, "relation": node.relation, "note": node.note, "row": row(node.row)})
        for depth, above, node in nodes
    )


def named(path: Path, given: str | None) -> Iterator[bytes]:
    """`rollout name --json`: {id, path, name}."""
    yield encode({"id": thread_of(path), "path": name(path), "name": given})


def moved(deeds: Iterable[Deed[Path]]) -> Iterator[bytes]:
    """`rollout archive|unarchive|rm|unseal --json`: [{id, path, error}]; `path` is where the file lies, or lay."""
    return array(encode({"id": each.id, "path": name(each.outcome or each.path), **_error(each)}) for each in deeds)


def sealed(deeds: Iterable[Deed[rollout.SealResult | None]]) -> Iterator[bytes]:
    """`rollout seal --json`: [{id, path, plain_bytes, sealed_bytes, error}]."""
    for_error = {"plain_bytes": None, "sealed_bytes": None}
    return array(
        encode(
            {
                "id": each.id,
                "path": name(each.path if each.outcome is None else each.outcome.path),
                **(for_error if each.outcome is None else _taken(each.outcome, tuple(for_error))),
                **_error(each),
            }
        )
        for each in deeds
    )


def sessions(rows: Iterable[rollout.SessionRow]) -> Iterator[bytes]:
    """`rollout sessions --json`: an array of the rows that `ls` has."""
    return array(encode(row(each)) for each in rows)


def transcript(read: rollout.Transcript) -> Iterator[bytes]:
    """`rollout read --json`: {path, session, text, messages, left_out, cut, bytes}; `session` is a row of `ls`."""
    document = {
        "path": name(read.path),
        "session": None if read.session is None else row(read.session),
        **_taken(read, ("text", "messages", "left_out", "cut", "bytes")),
    }
    yield encode(document)


def index(status: rollout.IndexStatus) -> Iterator[bytes]:
    """`rollout index --json`: {path, entries, files, stale, stale_bytes, bytes}."""
    keys = ("path", "entries", "files", "stale", "stale_bytes", "bytes")
    yield encode(_taken(status, keys))


def _error(deed: Deed[Any]) -> dict[str, str | None]:
    return {"error": None if deed.error is None else str(deed.error)}


def _notes(notes: Iterable[Any]) -> list[dict[str, Any]]:
    return [{"path": name(note.path), "what": note.what} for note in notes]


def _taken(value: object, keys: Sequence[str]) -> dict[str, Any]:
    found = {key: getattr(value, key) for key in keys}
    return {key: name(each) if isinstance(each, Path) else each for key, each in found.items()}
