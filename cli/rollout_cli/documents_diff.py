"""What differs, as a JSON document for `Output.print_json`; `documents` says what its keys are to scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rollout_cli.documents import array, encode, name

if TYPE_CHECKING:
    import rollout


def diff(diff: rollout.Diff, fates: Sequence[rollout.Explained | None] = ()) -> Iterator[bytes]:
    """`rollout diff --json`: {before, after, relation, shared, settings, context, world, tokens, kept, items}.

    `items` are those that differ, in order: {change, before, after, why, item}; `before` and `after` are places in the
    two histories, from 0 on, null where the item does not stand. `why` is what `explain --json` says of the line in the
    log of B: {status, line, by, by_offset}, null where that is not known or was not asked for.
    """
    shared = diff.shared
    head: dict[str, Any] = {
        "before": _state(diff.before),
        "after": _state(diff.after),
        "relation": diff.relation,
        "shared": None
        if shared is None
        else {"thread_id": shared.thread_id, "path": shared.path, "line": shared.line, "end": shared.end},
        "settings": _changed(diff.settings),
        "context": _changed(diff.context),
        "world": _changed(diff.world),
        "tokens": _changed(diff.tokens),
        "kept": diff.kept_count,
    }
    separator = b"{"
    for key, value in head.items():
        yield separator + encode(key) + b":" + encode(value)
        separator = b","
    yield b',"items":'
    yield from array(_items(diff, fates))
    yield b"}"


def _state(state: rollout.State) -> dict[str, Any]:
    return {
        "thread_id": state.thread_id,
        "path": name(state.path),
        "end": state.end,
        "items": len(state.history),
        "previous_model": state.previous_model,
    }


def _changed(values: Iterable[rollout.ValueChange]) -> list[dict[str, Any]]:
    return [{"key": each.key, "before": each.before, "after": each.after} for each in values]


def _items(diff: rollout.Diff, fates: Sequence[rollout.Explained | None]) -> Iterator[bytes]:
    whys = iter(fates)
    for run in diff.runs:
        for k in range(run.count):
            if run.change == "gone":
                yield _item(b"gone", run.before + k, None, next(whys, None), diff.before.history.raw(run.before + k))
            elif run.change == "added":
                yield _item(b"added", None, run.after + k, None, diff.after.history.raw(run.after + k))


def _item(change: bytes, before: int | None, after: int | None, why: rollout.Explained | None, raw: bytes) -> bytes:
    told = None
    if why is not None:
        told = {"status": why.status, "line": why.line, "by": why.by, "by_offset": why.by_offset}
    places = b'"before":%b,"after":%b,"why":%b' % (encode(before), encode(after), encode(told))
    return b'{"change":"%b",%b,"item":%b}' % (change, places, raw)
