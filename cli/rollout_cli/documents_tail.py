"""What is told of a session that is followed, as JSON documents, each in one line; see `documents` for their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollout_cli.documents import encode, name

if TYPE_CHECKING:
    import rollout


def told(told: rollout.FollowEvent) -> Iterator[bytes]:
    """`rollout tail --json`: {happened, path, line, offset, type, kind, status, turn_id, reason, what, record}.

    `record` is the whole line as it was written (null if it is damaged, and for a notice).
    """
    record = told.record
    head = {
        "happened": told.happened,
        "path": name(told.path),
        "line": None if record is None else record.line,
        "offset": None if record is None else record.offset,
        "type": None if record is None else record.type,
        "kind": None if record is None else record.kind,
        "status": told.status,
        "turn_id": told.turn_id,
        "reason": None if record is None else record.reason,
        "what": told.what,
    }
    data = b"null" if record is None or not record.data else record.data.strip(b" \t\r\n").replace(b"\r", b" ")
    yield encode(head)[:-1] + b',"record":' + data + b"}"
