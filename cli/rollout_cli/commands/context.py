"""Earlier sessions for an agent: which there are, what was said in one, and both as an MCP server."""

from typing import Annotated

import typer

from rollout_cli import options
from rollout_cli.failures import FINE
from rollout_cli.homes import open_store, reference, short_ids
from rollout_cli.options import Home, Json, Reference
from rollout_cli.printable import printable
from rollout_cli.terminal import Block, Output, print_error

_LEAST_BUDGET_BYTES = 200

Current = Annotated[
    str | None,
    typer.Option("--current-session", metavar="ID", help="The one that asks, left out; else $ROLLOUT_CURRENT_SESSION."),
]


def sessions(
    home: Home = None,
    json: Json = False,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="At most N, 1 to 100.")] = 20,
    current: Current = None,
    session_id: options.SessionId = None,
) -> int:
    """List the other sessions, for an agent that is in one itself.

    Example: rollout sessions --json
    """
    from rollout_cli import documents_store, render_store

    store, out = open_store(home), Output()
    rows = store.list_sessions(limit, current=current, session_id=session_id)
    if json:
        out.print_json(documents_store.sessions(rows))
        return FINE
    out.print(render_store.listing(rows, out.columns, short_ids(store, out, (row.id for row in rows)), "created"))
    if not rows:
        print_error(f"rollout: no other sessions in {store.home}")
    return FINE


def read(
    ref: Reference,
    home: Home = None,
    json: Json = False,
    budget: Annotated[int, typer.Option("--budget", metavar="BYTES", help="The longest answer.")] = 24_000,
    current: Current = None,
) -> int:
    """Print what was said in another session.

    The newest messages that fit, each whole. Example: rollout read -1
    """
    from rollout_cli import documents_store

    store, out = open_store(home), Output()
    ref = reference(ref, home)
    read = store.read_session(ref, budget_bytes=budget, current=current)
    if json:
        out.print_json(documents_store.transcript(read))
        return FINE
    asked = budget
    while (excess := _printed_bytes(read.text) - budget) > 0 and asked - excess >= _LEAST_BUDGET_BYTES:
        asked -= excess  # what is escaped takes more room
        read = store.read_session(ref, budget_bytes=asked, current=current)
    out.print([Block(read.text, indent_columns=0)])
    return FINE


def _printed_bytes(text: str) -> int:
    return len(printable(text, lines=True).encode()) + 1


def mcp(home: Home = None, current: Current = None) -> int:
    """Serve both to an agent, as an MCP server.

    On standard input and output; it only reads. Example: rollout mcp --home ~/.codex
    """
    from rollout.adapters import mcp as server

    server.serve(home, current=current)
    return FINE
