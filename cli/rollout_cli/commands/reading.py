"""One session, read: reconstruct, history, turns, explain, verify, repair, show, diff, tail."""

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

import rollout
from rollout_cli import options, terminal
from rollout_cli.completion import kinds
from rollout_cli.failures import DAMAGE_FOUND, FINE, interruptible
from rollout_cli.homes import point, reference, reference_at
from rollout_cli.options import At, Home, Json, SessionId, Source, Status, Tags
from rollout_cli.terminal import Output, print_error, progress
from rollout_cli.views import diff as diff_views
from rollout_cli.views import lines as line_views
from rollout_cli.views import show as show_view
from rollout_cli.views import state as state_views

Full = Annotated[bool, typer.Option("--full", help="Whole texts.")]
Statuses = Annotated[list[Status] | None, typer.Option("--status", help="Only lines of this status.")]


def reconstruct(source: Source, home: Home = None, json: Json = False, at: At = None) -> int:
    """Show the state to go on from, or the one that there was at an earlier position.

    Example: rollout reconstruct -1 --at line:40
    """
    state = _reconstruct(source, home, at)
    return show_view(json, state_views.state_json(state), lambda columns: state_views.state_rows(state, columns))


def history(
    source: Source,
    home: Home = None,
    json: Json = False,
    newest: Annotated[int | None, typer.Option("-n", min=0, metavar="N", help="Only the newest N items.")] = None,
    full: Full = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="As it can be sent: each call with its output.")] = False,
    at: At = None,
) -> int:
    """List what the model sees, or saw at an earlier position.

    Example: rollout history -1 --at line:40
    """
    state = _reconstruct(source, home, at)
    items = state.for_prompt() if prompt else state.history
    return show_view(
        json,
        state_views.history_json(items, newest),
        lambda columns: state_views.history_rows(items, newest, columns, full=full),
    )


def turns(
    source: Source,
    home: Home = None,
    json: Json = False,
    everything: Annotated[bool, typer.Option("--all", help="Those that were undone, too.")] = False,
    session_id: SessionId = None,
    tag: Tags = None,
    at: At = None,
) -> int:
    """List the turns that stand, or stood at an earlier position.

    Example: rollout turns -1 --all --at line:40
    """
    own = None if session_id is None else rollout.check_session_id(session_id)
    wanted = rollout.Label(own, options.tags(tag) or {})
    with progress() as advance:
        found = rollout.turns(reference(source, home), at=point(at), home=home, progress=advance)
    if not found:
        _reconstruct(source, home)  # refuses what is no rollout at all
    listed = [turn for turn in found if (turn.stands or everything) and turn.label.fits(wanted)]
    return show_view(json, state_views.turns_json(listed), lambda columns: state_views.turns_rows(listed, columns))


def explain(
    source: Source,
    home: Home = None,
    json: Json = False,
    line: Annotated[int | None, typer.Option("--line", min=1, metavar="N", help="Only line N, in a sentence.")] = None,
    status: Statuses = None,
    at: At = None,
) -> int:
    """Show the status of each line: why the model sees it, or does not; or did at an earlier position.

    Example: rollout explain -1 --line 40
    """
    with progress() as advance:
        lines = rollout.explain(reference(source, home), at=point(at), home=home, progress=advance)
    has_records = any(each.status not in {Status.damaged, Status.blank} for each in lines)
    check_is_rollout(next((each.path for each in lines), None), has_records)
    chosen: Iterable[rollout.Explained] = lines if line is None else _find_line(lines, line)
    if status:
        chosen = (each for each in chosen if each.status in status)
    document = line_views.explained_json(chosen)
    if line is not None:
        return show_view(json, document, lambda _: line_views.sentences(chosen))
    return show_view(json, document, lambda columns: line_views.explained_rows(chosen, columns))


def verify(source: Source, home: Home = None, json: Json = False) -> int:
    """List all damage, and what else is odd.

    Exits with 1 if there is damage. Example: rollout verify -1
    """
    with progress() as advance:
        report = rollout.verify(reference(source, home), home=home, progress=advance)
    check_is_rollout(report.path, report.records > 0 or not report.damage)
    show_view(json, line_views.report_json(report), lambda _: line_views.report_rows(report))
    return DAMAGE_FOUND if report.damaged_lines else FINE


def repair(
    source: Source,
    home: Home = None,
    json: Json = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; a file that is written anew is backed up first.")
    ] = False,
) -> int:
    """Show how a damaged file can be repaired, or do it.

    Exits with 1 if there is something to do. Example: rollout repair -1 --apply
    """
    with progress() as advance:
        plan = rollout.plan_repair(reference(source, home), home=home, progress=advance)
        with interruptible("run it again to see what is left to do"):
            done = rollout.apply_repair(plan, progress=advance) if apply and plan.steps else None
    show_view(json, line_views.repair_json(plan, done), lambda _: line_views.repair_rows(plan, done))
    return FINE if done or not plan.steps else DAMAGE_FOUND


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
    with progress() as advance:
        found = rollout.summarize(reference(source, home), at=point(at), home=home, progress=advance)
    check_is_rollout(found.state.path, found.state.records_decoded > 0 or not found.state.damage)
    return show_view(
        json,
        state_views.summary_json(found),
        lambda columns: state_views.summary_rows(found, columns, everything=everything),
    )


def diff(
    before: options.Before,
    after: options.After,
    home: Home = None,
    json: Json = False,
    full: Full = False,
    why: Annotated[bool, typer.Option("--why", help="The status of the items that went. Reads everything.")] = False,
) -> int:
    """Show what differs between two positions of a session, two sessions, or a fork and its base.

    Items that came are marked +, those that went -; what only programs read of an item does not count.

    Example: rollout diff -1@line:40 -1

    Example: rollout diff 019d@01a1fff6-9aef @01a1fff6-9b19 --why
    """
    states = []
    for ref, at in (reference_at(before, home=home), reference_at(after, before, home)):
        with progress() as advance:
            states.append(rollout.reconstruct(ref, at=at, home=home, progress=advance))
        check_is_rollout(states[-1].path, states[-1].records_decoded > 0 or not states[-1].damage)
    found = rollout.diff(*states)
    whys = found.fates() if why else ()
    return show_view(
        json, diff_views.diff_json(found, whys), lambda columns: diff_views.diff_rows(found, whys, columns, full=full)
    )


def tail(
    source: Source,
    home: Home = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys, an object a line.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    last: Annotated[
        int,
        typer.Option(
            "-n", min=0, metavar="N", help="The newest N lines to begin with; what chooses lines chooses among them."
        ),
    ] = 10,
    everything: Annotated[bool, typer.Option("--all", help="Begin with the first line.")] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only such lines: message, turn_context, …", autocompletion=kinds),
    ] = None,
    status: Statuses = None,
    turn: options.TurnId = None,
    interval: Annotated[
        str,
        typer.Option("--interval", metavar="AGE", help="How often to look: 1s, 5s; four times a second unless said."),
    ] = "",
) -> int:
    """Print the newest lines of a session, and follow it as it is written.

    Says too when the file is cut, replaced, sealed, moved or deleted, when
    the session goes on in another file, and what a rollback or a compaction
    took from the model of the lines above.

    Example: rollout tail -f -1 --kind function_call --kind function_call_output
    """
    out, is_silent = Output(), True
    for event in rollout.tail(
        reference(source, home),
        last=None if everything else last,
        follow=follow,
        kinds=kind or (),
        statuses=[each.value for each in status or ()],
        turn=turn,
        home=home,
        interval_s=options.age(interval).total_seconds() if interval else 0.25,
    ):
        is_silent = False
        show_view(json, line_views.followed_json(event), functools.partial(line_views.followed_rows, event), out)
        if follow:
            terminal.flush()
    if is_silent and (kind or status or turn) and not (json or everything):
        print_error(f"rollout: none of the newest {last} lines is one of these; --all looks at every line")
    return FINE


def _reconstruct(source: str, home: str | None, at: str | None = None) -> "rollout.State":
    with progress() as advance:
        state = rollout.reconstruct(reference(source, home), at=point(at), home=home, progress=advance)
    check_is_rollout(state.path, state.records_decoded > 0 or not state.damage)
    return state


def check_is_rollout(path: str | os.PathLike[str] | None, has_records: bool) -> None:
    """Refuse a file that is all damage, unless its name says that it is a rollout: then it is a broken one."""
    if path is None or has_records or Path(path).name.startswith("rollout-"):
        return
    raise rollout.NotARollout(
        "no line of it is a record of a rollout", path=path, remedy="check the path, or give a thread id or -1"
    )


def _find_line(lines: "Iterable[rollout.Explained]", number: int) -> "list[rollout.Explained]":
    """Line `number` of the log, and of each log that it goes on from."""
    found = [each for each in lines if each.line == number]
    if not found:
        last = max((each.line for each in lines if each.inherited is None), default=0)
        raise rollout.UsageError(f"there is no line {number}", remedy=f"give --line a number from 1 to {last}")
    return found
