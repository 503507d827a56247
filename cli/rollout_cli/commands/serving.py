"""A recording that answers a program in the model's place."""

from typing import TYPE_CHECKING, Annotated

import typer

from rollout_cli import terminal
from rollout_cli.failures import FINE
from rollout_cli.homes import reference
from rollout_cli.options import Home, Ignored, Json, Source
from rollout_cli.terminal import Line, Output

if TYPE_CHECKING:
    from rollout.adapters.responses.server import Exchange


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
    from rollout_cli import documents_serve

    out = Output()

    def tell(exchange: "Exchange") -> None:
        if json:
            out.print_json(documents_serve.exchange(exchange))
        else:
            out.print([_line(exchange)], cut=False)
            terminal.flush()

    server = responses.open_server(
        reference(source, home), home=home, port=port, ignored=ignore or (), is_strict=strict, on_exchange=tell
    )
    if json:
        out.print_json(documents_serve.server(server))
    else:
        calls = len(server.recording.calls)
        out.print([((f"{server.url}", "bold"), f"  answers {calls} recorded calls; Ctrl-C ends it")], cut=False)
        terminal.flush()
    try:
        server.run()
    except KeyboardInterrupt:
        return FINE
    return FINE


def _line(exchange: "Exchange") -> Line:
    if exchange.error is not None:
        return (("refused  ", "red"), exchange.error)
    notes = "".join(f"; {note}" for note in exchange.notes)
    return (("answered ", "green"), f"call {exchange.call} of line {exchange.line}{notes}")
