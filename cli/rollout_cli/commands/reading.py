"""One rollout, read: reconstruct, history, turns, explain, verify, repair."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout_cli.failures import DAMAGE_FOUND, FINE, interruptible
from rollout_cli.homes import reference
from rollout_cli.options import Apply, At, Home, Json, SessionId, Source, Status, Tags, tags
from rollout_cli.terminal import Output, progress

if TYPE_CHECKING:
    import rollout


def reconstruct(source: Source, home: Home = None, json: Json = False, at: At = None) -> int:
    """Show the state to go on from, or the one that there was at an earlier moment.

    Example: rollout reconstruct -1 --at line:40
    """
    from rollout_cli import documents, render

    out, state = Output(), _reconstruct(source, home, at)
    if json:
        out.print_json(documents.state(state))
    else:
        out.print(render.state(state, out.columns), cut=False)
    return FINE


def history(
    source: Source,
    home: Home = None,
    json: Json = False,
    newest: Annotated[int | None, typer.Option("-n", min=0, metavar="N", help="Only the newest N items.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="As it can be sent: each call with its output.")] = False,
    at: At = None,
) -> int:
    """List what the model sees, or saw at an earlier moment.

    Example: rollout history -1 --at line:40
    """
    from rollout_cli import documents, render

    out, state = Output(), _reconstruct(source, home, at)
    if prompt:
        items = state.for_prompt()
        items = items if newest is None else items[len(items) - min(newest, len(items)) :]
        if json:
            out.print_json(documents.prompt(items))
        else:
            out.print(render.history(items, out.columns, full=full))
    elif json:
        out.print_json(documents.history(state.history, newest))
    else:
        out.print(render.history(state.history, out.columns, newest=newest, full=full))
    return FINE


def turns(
    source: Source,
    home: Home = None,
    json: Json = False,
    everything: Annotated[bool, typer.Option("--all", help="Those that were undone, too.")] = False,
    session_id: SessionId = None,
    tag: Tags = None,
    at: At = None,
) -> int:
    """List the turns that stand, or stood at an earlier moment.

    Example: rollout turns -1 --all --at line:40
    """
    import rollout
    from rollout_cli import documents, render
    from rollout_cli.points import point

    out = Output()
    own = None if session_id is None else rollout.check_session_id(session_id)
    wanted = rollout.Label(own, tags(tag) or {})
    with progress() as advance:
        found = rollout.turns(reference(source, home), at=point(at), home=home, progress=advance)
    if not found:
        _reconstruct(source, home)  # refuses what is no rollout at all
    listed = [turn for turn in found if (turn.stands or everything) and turn.label.fits(wanted)]
    if json:
        out.print_json(documents.turns(listed))
    else:
        out.print(render.turns(listed, out.columns))
    return FINE


def explain(
    source: Source,
    home: Home = None,
    json: Json = False,
    line: Annotated[int | None, typer.Option("--line", min=1, metavar="N", help="Only line N, in a sentence.")] = None,
    status: Annotated[list[Status] | None, typer.Option("--status", help="Only lines of which this became.")] = None,
    at: At = None,
) -> int:
    """Tell for each line why the model sees it, or does not; or did at an earlier moment.

    Example: rollout explain -1 --line 40
    """
    import rollout
    from rollout_cli import documents, render
    from rollout_cli.points import point

    out = Output()
    with progress() as advance:
        lines = rollout.explain(reference(source, home), at=point(at), home=home, progress=advance)
    has_records = any(each.status not in {Status.damaged, Status.blank} for each in lines)
    check_is_rollout(next((each.path for each in lines), None), has_records)
    chosen: Iterable[rollout.Explained] = lines if line is None else _find_line(lines, line)
    if status:
        chosen = (each for each in chosen if each.status in status)
    if json:
        out.print_json(documents.explanation(chosen))
    elif line is None:
        out.print(render.explanation(chosen, out.columns))
    else:
        out.print(map(render.sentence, chosen), cut=False)
    return FINE


def verify(source: Source, home: Home = None, json: Json = False) -> int:
    """List all damage, and what else is odd.

    Exits with 1 if there is damage. Example: rollout verify -1
    """
    import rollout
    from rollout_cli import documents, render

    out = Output()
    with progress() as advance:
        report = rollout.verify(reference(source, home), home=home, progress=advance)
    check_is_rollout(report.path, report.records > 0 or not report.damage)
    if json:
        out.print_json(documents.report(report))
    else:
        out.print(render.report(report), cut=False)
    return DAMAGE_FOUND if report.damaged_lines else FINE


def repair(source: Source, home: Home = None, json: Json = False, apply: Apply = False) -> int:
    """Show how a damaged file can be mended, or do it.

    Exits with 1 if there is something to do. Example: rollout repair -1 --apply
    """
    import rollout
    from rollout_cli import documents, render

    out = Output()
    with progress() as advance:
        plan = rollout.plan_repair(reference(source, home), home=home, progress=advance)
        with interruptible("run it again to see what is left to do"):
            done = rollout.apply_repair(plan, progress=advance) if apply and plan.steps else None
    if json:
        out.print_json(documents.repair(plan, done))
    else:
        out.print(render.repair(plan, done), cut=False)
    return FINE if done or not plan.steps else DAMAGE_FOUND


def _reconstruct(source: str, home: str | None, at: str | None = None) -> "rollout.State":
    import rollout
    from rollout_cli.points import point

    with progress() as advance:
        state = rollout.reconstruct(reference(source, home), at=point(at), home=home, progress=advance)
    check_is_rollout(state.path, state.records_decoded > 0 or not state.damage)
    return state


def check_is_rollout(path: str | os.PathLike[str] | None, has_records: bool) -> None:
    """Refuse a file that is all damage, unless its name says that it is a rollout: then it is a broken one."""
    if path is None or has_records or Path(path).name.startswith("rollout-"):
        return
    from rollout import NotARollout

    raise NotARollout(
        "no line of it is a record of a rollout", path=path, remedy="check the path, or give a thread id or -1"
    )


def _find_line(lines: "Iterable[rollout.Explained]", number: int) -> "list[rollout.Explained]":
    """Line `number` of the log, and of each log that it goes on from."""
    from rollout.errors import UsageError

    found, last = [], 0
    for each in lines:
        if each.line == number:
            found.append(each)
        if each.inherited is None:
            last = each.line
    if not found:
        raise UsageError(f"there is no line {number}", remedy=f"give --line a number from 1 to {last}")
    return found
