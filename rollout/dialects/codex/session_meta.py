"""The session_meta: what it says of a session, and the file that it continues, its *base*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rollout import ids
from rollout.format.strict_json import value_at
from rollout.ids import FileId

_BASE, _MODE = "history_base", "history_mode"
PAGINATED = "paginated"
"""The mode of a log whose lines have ordinals."""
LINEAGE_KEYS = ("id", "timestamp", _BASE)
"""Those that tell whose file it is, and what needs what."""


class Base(NamedTuple):
    """What a session_meta says of the file that it continues; None for what it does not say, or not as it should.

    `end` is the number of bytes, `ordinal` that behind the last line of them; `told` and `told_end` are the id and the
    end as they stand there.
    """

    id: FileId | None
    end: int | None
    ordinal: int | None
    told: object
    told_end: object


class SessionFacts(NamedTuple):
    """What a session_meta says of its session; None for what it does not say.

    `source` is cli, exec, vscode, mcp, subagent, … also where it says more than a word; `parent` the thread that a
    subagent was started from; `base` the id of the file that it continues, or what stands there instead of one.
    """

    created: str | None
    cwd: str | None
    git_branch: str | None
    model_provider: str | None
    originator: str | None
    cli_version: str | None
    source: str | None
    parent: str | None
    forked_from: str | None
    base: str | None


def base_of(meta: Mapping[str, Any] | None) -> Base | None:
    """The base in the payload of a session_meta; None if it names none."""
    said = (meta or {}).get(_BASE)
    if said is None:
        return None
    keys = said if isinstance(said, dict) else {"thread_id": said}
    id, end, ordinal = (keys.get(key) for key in ("thread_id", "end_byte_offset", "end_ordinal_exclusive"))
    is_end = isinstance(end, int) and not isinstance(end, bool) and end >= 0
    is_ordinal = isinstance(ordinal, int) and not isinstance(ordinal, bool)
    file = ids.file_id_of(id) if isinstance(id, str) else None
    return Base(file, end if is_end else None, ordinal if is_ordinal else None, id, end)


def told_base(file: FileId, end: int, ordinal: int | None) -> dict[str, Any]:
    """What a session_meta says of a base of which `end` bytes count; `ordinal` is that behind the last line of them."""
    numbered = {} if ordinal is None else {"end_ordinal_exclusive": ordinal}
    return {"thread_id": file, **numbered, "end_byte_offset": end}


def base_id(meta: Mapping[str, Any] | None) -> str | None:
    """The id of the file that one with this session_meta continues, or what stands there instead of one."""
    base = base_of(meta)
    return None if base is None else base.id or _text(base.told)


def without_base(line: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """The line of a session_meta as the first one of a file that continues none; None if it names no base."""
    if _BASE not in meta:
        return None
    kept = {key: value for key, value in line.items() if key != "ordinal"}
    return {**kept, "payload": {key: value for key, value in meta.items() if key != _BASE}}


def instructions_of(meta: Mapping[str, Any] | None) -> str | None:
    """The text that the session began with."""
    meta = meta or {}
    given = meta.get("base_instructions", meta.get("instructions"))
    return _text(given.get("text") if isinstance(given, dict) else given)


def is_paginated(meta: Mapping[str, Any] | None) -> bool:
    """Whether it says that its lines have ordinals."""
    return (meta or {}).get(_MODE) == PAGINATED


def facts_of(meta: Mapping[str, Any] | None) -> SessionFacts:
    """What the payload of a session_meta says."""
    meta = meta or {}
    source = meta.get("source")
    return SessionFacts(
        created=_text(meta.get("timestamp")),
        cwd=_text(meta.get("cwd")),
        git_branch=_text(value_at(meta, "git", "branch")),
        model_provider=_text(meta.get("model_provider")),
        originator=_text(meta.get("originator")),
        cli_version=_text(meta.get("cli_version")),
        source=_text(next(iter(source), None) if isinstance(source, dict) else source),
        parent=_id(value_at(source, "subagent", "thread_spawn", "parent_thread_id")),
        forked_from=_id(meta.get("forked_from_id")),
        base=base_id(meta),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _id(value: object) -> str | None:
    """A thread id as file names have it; any other text as it stands."""
    return (ids.file_id_of(value) or value) if isinstance(value, str) else None
