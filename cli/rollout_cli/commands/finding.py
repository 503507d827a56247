"""Sessions found: listed, shown as a tree, searched."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollout_cli import options
from rollout_cli.failures import FINE
from rollout_cli.homes import open_store, short_ids, walk
from rollout_cli.options import Cursor, Home, Json, Kind, Limit, Sort
from rollout_cli.terminal import Output, print_error, progress

if TYPE_CHECKING:
    import rollout

_PAGE_ROWS = 500


def ls(
    home: Home = None,
    json: Json = False,
    limit: Limit = 20,
    everything: Annotated[bool, typer.Option("--all", help="All that there are, not only the newest.")] = False,
    cursor: Cursor = None,
    sort: Annotated[Sort, typer.Option("--sort", help="Newest first by this.")] = Sort.created,
    cwd: options.Cwd = None,
    provider: options.Provider = None,
    model: options.Model = None,
    source: options.From = None,
    since: options.Since = None,
    until: options.Until = None,
    archived: options.Archived = False,
    with_archived: options.WithArchived = False,
    name: options.Name = None,
    session_id: options.SessionId = None,
    tag: options.Tags = None,
    damaged: options.Damaged = None,
    text: Annotated[str | None, typer.Option("--text", metavar="WORDS", help="Only where these words occur.")] = None,
    subagents: options.Subagents = False,
    forks: options.Forks = False,
) -> int:
    """List sessions, newest first.

    Subagents, forks and the archive are left out unless asked for. Example: rollout ls --cwd . --since 7d
    """
    from rollout_cli import documents_store, render_store

    filters = _filters(
        *(cwd, provider, model, source, since, until, archived, with_archived, name, session_id, tag, damaged)
    )
    filters |= {"text": text, "subagents": subagents, "forks": forks, "sort": sort.value}
    store = open_store(home)
    rows: list[rollout.SessionRow] = []
    notes: list[Any] = []
    left_out = {"subagents": 0, "forks": 0}
    with progress("sessions") as advance:
        while True:
            page = store.list(limit=_PAGE_ROWS if everything else limit, cursor=cursor, progress=advance, **filters)
            rows += page
            notes += page.notes
            left_out = {kind: count + page.left_out.get(kind, 0) for kind, count in left_out.items()}
            cursor = page.cursor
            if not everything or cursor is None:
                break
    out = Output()
    if json:
        out.print_json(documents_store.listing(rows, cursor, left_out, notes))
        return FINE
    out.print(render_store.listing(rows, out.columns, short_ids(store, out, (row.id for row in rows)), sort.value))
    if not rows:
        print_error(f"rollout: no sessions in {store.home}" + (" fit" if _asks(filters) else ""))
    _tell(notes, left_out, cursor, "--all")
    return FINE


def tree(home: Home = None, json: Json = False) -> int:
    """Show which session comes from which: forks, reverts, subagents.

    Example: rollout tree --home ~/.codex
    """
    from rollout_cli import documents_store, render_store

    store, out = open_store(home), Output()
    with progress("sessions") as advance:
        nodes = list(walk(store.tree(progress=advance)))
    if json:
        out.print_json(documents_store.tree(nodes))
    else:
        out.print(render_store.tree(nodes, out.columns, short_ids(store, out, (node.row.id for _, _, node in nodes))))
        if not nodes:
            print_error(f"rollout: no sessions in {store.home}")
    return FINE


def search(
    query: Annotated[str, typer.Argument(metavar="WORDS", help='What to look for; "…" keeps words together.')],
    home: Home = None,
    json: Json = False,
    limit: Limit = 20,
    cursor: Cursor = None,
    kind: Annotated[list[Kind] | None, typer.Option("--kind", help="Only in such texts.")] = None,
    standing: Annotated[bool, typer.Option("--standing", help="Only what the model still sees.")] = False,
    cwd: options.Cwd = None,
    provider: options.Provider = None,
    model: options.Model = None,
    source: options.From = None,
    since: options.Since = None,
    until: options.Until = None,
    archived: options.Archived = False,
    with_archived: options.WithArchived = False,
    name: options.Name = None,
    session_id: options.SessionId = None,
    tag: options.Tags = None,
    damaged: options.Damaged = None,
    subagents: Annotated[bool, typer.Option(help="Subagents, too.")] = True,
    forks: Annotated[bool, typer.Option(help="Forks, too.")] = True,
) -> int:
    """Search what was said and done, and whether it still stands.

    Example: rollout search "parser error" --kind user
    """
    from rollout_cli import documents_store, render_store

    filters = _filters(
        *(cwd, provider, model, source, since, until, archived, with_archived, name, session_id, tag, damaged)
    )
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
    out = Output()
    if json:
        out.print_json(documents_store.hits(found, found.cursor, found.notes))
        return FINE
    out.print(render_store.hits(found, out.columns, short_ids(store, out, (hit.id for hit in found))))
    if not found:
        print_error("rollout: nothing found")
    _tell(found.notes, {}, found.cursor, "a higher --limit")
    return FINE


def _filters(
    cwd: str | None,
    provider: str | None,
    model: str | None,
    source: str | None,
    since: str | None,
    until: str | None,
    archived: bool,
    with_archived: bool,
    name: str | None,
    session_id: str | None,
    tag: list[str] | None,
    damaged: bool | None,
) -> dict[str, Any]:
    """The filters that lists and searches share, as the library takes them."""
    return {
        "cwd": None if cwd is None else options.directory(cwd),
        "model_provider": provider,
        "model": model,
        "source": source,
        "since": options.moment(since),
        "until": options.moment(until, ends=True),
        "archived": None if with_archived else archived,
        "name": name,
        "session_id": session_id,
        "tags": options.tags(tag),
        "damaged": damaged,
    }


def _asks(filters: Mapping[str, Any]) -> bool:
    """Whether any filter leaves something out."""
    return any(value not in {None, False} for key, value in filters.items() if key not in {"sort", "tags"}) or bool(
        filters["tags"]
    )


def _tell(notes: Iterable[Any], left_out: Mapping[str, int], cursor: str | None, more: str) -> None:
    """On standard error: what could not be read, what was left out, and that there is more."""
    for note in notes:
        print_error(f"rollout: {note.path}: {note.what}")
    for kind, count in left_out.items():
        if count:
            print_error(f"rollout: {count:,} {kind if count > 1 else kind[:-1]} left out; --{kind} shows them")
    if cursor is not None:
        print_error(f"rollout: there is more; {more} shows it, --cursor {cursor} goes on")
