"""For agents: other sessions to read, the same as an MCP server, and a recording that answers in a model's place."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

import rollout
from rollout_cli import options, terminal
from rollout_cli.failures import FINE
from rollout_cli.homes import open_store, reference
from rollout_cli.options import Home, Ignored, Json, Reference, Source
from rollout_cli.printable import printable
from rollout_cli.terminal import Block, Output, Wrapped, fact, print_error
from rollout_cli.views import encode, pick, show
from rollout_cli.views.sessions import listing_rows, sessions_json, transcript_json

if TYPE_CHECKING:
    from rollout.adapters.responses.server import Exchange

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
    store = open_store(home)
    rows = rollout.agent_tools.list_sessions(limit, current=current, session_id=session_id, home=store)
    show(json, sessions_json(rows), lambda columns: listing_rows(store, rows, columns))
    if not rows and not json:
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
    store = open_store(home)
    ref = reference(ref, home)
    found = rollout.agent_tools.read_session(ref, budget_bytes=budget, current=current, home=store)
    asked = budget
    while not json:
        excess = len(printable(found.text, lines=True).encode()) + 1 - budget  # what is escaped takes more room
        if excess <= 0 or asked - excess < _LEAST_BUDGET_BYTES:
            break
        asked -= excess
        found = rollout.agent_tools.read_session(ref, budget_bytes=asked, current=current, home=store)
    return show(json, transcript_json(found), lambda _: [Block(found.text, indent_columns=0)])


def mcp(home: Home = None, current: Current = None) -> int:
    """Serve both to an agent, as an MCP server.

    On standard input and output; it only reads. Example: rollout mcp --home ~/.codex
    """
    from rollout.adapters import mcp as server

    server.serve(home, current=current)
    return FINE


def serve(
    source: Source,
    home: Home = None,
    json: Json = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="0: any that is free.")] = 0,
    ignore: Annotated[
        list[Ignored] | None,
        typer.Option("--ignore", help="Let what tools gave, what the program wrote or the model thought be different."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let model and instructions not be different.")] = False,
) -> int:
    """Answer a program as the recorded model did, as the Responses API.

    On this machine only, until Ctrl-C. For example:
    rollout serve -1 --port 8080 & OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none my-agent
    """
    from rollout.adapters.responses import server as responses

    out = Output()

    def tell(document: Iterable[bytes], row: Wrapped) -> None:
        if json:
            out.print_json(document)
        else:
            out.print([row])
            terminal.flush()

    def show_exchange(exchange: "Exchange") -> None:
        notes = "".join(f"; {note}" for note in exchange.notes)
        answered = fact("answered", f"call {exchange.call} of line {exchange.line}{notes}", columns=9, style="green")
        refused = None if exchange.error is None else fact("refused", exchange.error, columns=9, style="red")
        tell([encode(pick(exchange, "call line streamed notes error"))], refused or answered)

    server = responses.Server(
        reference(source, home), home=home, port=port, ignored=ignore or (), is_strict=strict, on_exchange=show_exchange
    )
    calls = len(server.recording.calls)
    known = {"url": server.url, "calls": calls, "path": server.recording.path}
    tell([encode(known)], Wrapped(((server.url, "bold"), f"  answers {calls} recorded calls; Ctrl-C ends it")))
    try:
        server.run()
    except KeyboardInterrupt:
        return FINE
    return FINE
