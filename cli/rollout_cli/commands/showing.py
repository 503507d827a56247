"""One session on a page, and what many have spent."""

from typing import Annotated

import typer

from rollout_cli import options
from rollout_cli.failures import FINE
from rollout_cli.homes import open_store, reference
from rollout_cli.options import At, Home, Json, Source
from rollout_cli.terminal import Output, print_error, progress


def show(
    source: Source,
    home: Home = None,
    json: Json = False,
    everything: Annotated[bool, typer.Option("--all", help="All turns, not only the newest.")] = False,
    at: At = None,
) -> int:
    """Show one session on a page: turns, tools, tokens, what was taken back.

    For the newest one, as it was behind line 40: rollout show -1 --at line:40
    """
    import rollout
    from rollout_cli import documents_show, render_show
    from rollout_cli.commands.reading import check_is_rollout
    from rollout_cli.points import point

    out = Output()
    with progress() as advance:
        found = rollout.summarize(reference(source, home), at=point(at), home=home, progress=advance)
    check_is_rollout(found.state.path, found.state.records_decoded > 0 or not found.state.damage)
    if json:
        out.print_json(documents_show.summary(found))
    else:
        out.print(render_show.summary(found, out.columns), cut=False)
        out.print(render_show.turn_table(found, out.columns, everything))
        out.print(render_show.exchange(found), cut=False)
    return FINE


def stats(
    home: Home = None,
    json: Json = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="At most N rows of a table.")] = 15,
    cwd: options.Cwd = None,
    provider: options.Provider = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Only what this model spent.")] = None,
    source: options.From = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Only days from then on: 2026-03-20, or 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Only days up to then.")] = None,
    archived: options.Archived = False,
    session_id: options.SessionId = None,
    tag: options.Tags = None,
    subagents: Annotated[bool, typer.Option(help="Subagents, too.")] = True,
    forks: Annotated[bool, typer.Option(help="Forks, too.")] = True,
) -> int:
    """Show what sessions have spent, by day, model and project.

    Each token counts once, whatever was forked or rolled back. For the last week: rollout stats --since 7d
    """
    from rollout_cli import documents_show, render_show

    store, out = open_store(home), Output()
    with progress() as advance:
        found = store.stats(
            cwd=None if cwd is None else options.directory(cwd),
            model_provider=provider,
            model=model,
            source=source,
            since=options.moment(since),
            until=options.moment(until, ends=True),
            archived=True if archived else None,
            session_id=session_id,
            tags=options.tags(tag),
            subagents=subagents,
            forks=forks,
            progress=advance,
        )
    if json:
        out.print_json(documents_show.stats(found))
        return FINE
    out.print(render_show.stats(found, out.columns, limit))
    if not found.sessions:
        print_error(f"rollout: no sessions in {store.home} fit, or there are none")
    for note in found.notes:
        print_error(f"rollout: {note.path}: {note.what}")
    return FINE
