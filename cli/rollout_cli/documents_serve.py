"""What `rollout serve --json` prints: one JSON document a line, the server first, then each request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollout_cli.documents import encode, name

if TYPE_CHECKING:
    from rollout.adapters.responses.server import Exchange, Server


def server(server: Server) -> Iterator[bytes]:
    """{url, calls, path}, once it can be reached."""
    yield encode({"url": server.url, "calls": len(server.recording.calls), "path": name(server.recording.path)})


def exchange(exchange: Exchange) -> Iterator[bytes]:
    """{call, line, streamed, notes, error}; `error` is null where there was an answer."""
    yield encode(
        {
            "call": exchange.call,
            "line": exchange.line,
            "streamed": exchange.streamed,
            "notes": list(exchange.notes),
            "error": exchange.error,
        }
    )
