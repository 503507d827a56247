"""Sessions found: listed, shown as a tree, searched, counted; and the index that all this is read from."""

import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from rollout_cli import options
from rollout_cli.failures import FINE, interruptible
from rollout_cli.homes import open_store, walk
from rollout_cli.options import Cursor, Home, Json, Kind, Limit, Sort
from rollout_cli.terminal import print_error, progress
from rollout_cli.views import encode, pick, show
from rollout_cli.views.sessions import (
    hits_json,
    hits_rows,
    index_rows,
    listing_json,
    listing_rows,
    tree_json,
    tree_rows,
)
from rollout_cli.views.totals import stats_json, stats_rows


@options.selects
def ls(
    filters: dict[str, Any],
    home: Home = None,
    json: Json = False,
    limit: Limit = 20,
    everything: Annotated[bool, typer.Option("--all", help="All that there are, not only the newest.")] = False,
    cursor: Cursor = None,
    sort: Annotated[Sort, typer.Option("--sort", help="Newest first by this.")] = Sort.created,
    text: Annotated[str | None, typer.Option("--text", metavar="WORDS", help="Only where these words occur.")] = None,
    subagents: Annotated[bool, typer.Option("--subagents", help="Subagents, too.")] = False,
    forks: Annotated[bool, typer.Option("--forks", help="Forks, too.")] = False,
) -> int:
    """List sessions, newest first.

    Subagents, forks and the archive are left out unless asked for. Example: rollout ls --cwd . --since 7d
    """
    filters |= {"text": text, "subagents": subagents, "forks": forks, "sort": sort.value}
    store = open_store(home)
    with progress("sessions") as advance:
        page = store.list(limit=sys.maxsize if everything else limit, cursor=cursor, progress=advance, **filters)
    show(json, listing_json(page), lambda columns: listing_rows(store, page, columns, sort.value))
    if not json:
        if not page:
            asks = any(value not in (None, False, {}) for key, value in filters.items() if key != "sort")
            print_error(f"rollout: no sessions in {store.home}" + (" fit" if asks else ""))
        _print_rest(page.notes, page.left_out, page.cursor, "--all")
    return FINE


def tree(home: Home = None, json: Json = False) -> int:
    """Show which session comes from which: forks, reverts, subagents.

    Example: rollout tree --home ~/.codex
    """
    store = open_store(home)
    with progress("sessions") as advance:
        nodes = list(walk(store.tree(progress=advance)))
    show(json, tree_json(nodes), lambda columns: tree_rows(store, nodes, columns))
    if not nodes and not json:
        print_error(f"rollout: no sessions in {store.home}")
    return FINE


@options.selects
def search(
    filters: dict[str, Any],
    query: Annotated[str, typer.Argument(metavar="WORDS", help='What to look for; "…" keeps words together.')],
    home: Home = None,
    json: Json = False,
    limit: Limit = 20,
    cursor: Cursor = None,
    kind: Annotated[list[Kind] | None, typer.Option("--kind", help="Only in such texts.")] = None,
    standing: Annotated[bool, typer.Option("--standing", help="Only what the model still sees.")] = False,
    subagents: Annotated[bool, typer.Option(help="Subagents, too.")] = True,
    forks: Annotated[bool, typer.Option(help="Forks, too.")] = True,
) -> int:
    """Search what was said and done, and whether it still stands.

    Example: rollout search "parser error" --kind user
    """
    store = open_store(home)
    with progress("sessions") as advance:
        found = store.search(
            query,
            limit=limit,
            cursor=cursor,
            kinds=None if not kind else [each.value for each in kind],
            standing=True if standing else None,
            subagents=subagents,
            forks=forks,
            progress=advance,
            **filters,
        )
    show(json, hits_json(found), lambda columns: hits_rows(store, found, columns))
    if not json:
        if not found:
            print_error("rollout: nothing found")
        _print_rest(found.notes, {}, found.cursor, "a higher --limit")
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
    store = open_store(home)
    filters = options.selection(cwd, provider, model, source, since, until, session_id=session_id, tag=tag)
    filters |= {"archived": True if archived else None, "subagents": subagents, "forks": forks}
    del filters["name"], filters["damaged"]
    with progress() as advance:
        found = store.stats(progress=advance, **filters)
    show(json, stats_json(found), lambda columns: stats_rows(found, columns, limit=limit))
    if not json:
        if not found.sessions:
            print_error(f"rollout: no sessions in {store.home} fit, or there are none")
        _print_rest(found.notes, {}, None, "")
    return FINE


def index(
    home: Home = None,
    json: Json = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Throw it away first.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only say how far it is.")] = False,
) -> int:
    """Bring the index of lists and searches up to date.

    They do it themselves, as far as they need it. It can be deleted at any time. Example: rollout index --status
    """
    store = open_store(home)
    if not status:
        with interruptible("what was indexed is kept"), progress() as advance:
            store.refresh_index(rebuild, progress=advance)
    found = store.index_status()
    keys = "path entries files stale stale_bytes bytes"
    return show(json, [encode(pick(found, keys))], lambda _: index_rows(found))


def _print_rest(notes: Iterable[Any], left_out: Mapping[str, int], cursor: str | None, more: str) -> None:
    """On standard error: what could not be read, what was left out, and that there is more."""
    for note in notes:
        print_error(f"rollout: {note.path}: {note.what}")
    for kind, count in left_out.items():
        if count:
            print_error(f"rollout: {count:,} {kind if count > 1 else kind[:-1]} left out; --{kind} shows them")
    if cursor is not None:
        print_error(f"rollout: there is more; {more} shows it, --cursor {cursor} goes on")
