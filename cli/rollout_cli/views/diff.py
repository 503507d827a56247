"""What differs between two states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import rollout
from rollout_cli.cells import LABEL_CHARS, fill, preview
from rollout_cli.items import describe_at, to_json
from rollout_cli.terminal import Block, Line, Row, fact
from rollout_cli.units import count
from rollout_cli.views import array, members, pick
from rollout_cli.views.lines import status_words
from rollout_cli.views.totals import token_words

_VALUE_CHARS = 200
_SIGNS = {"gone": ("-", "red"), "added": ("+", "green")}
_REFERENCES = {"cleared": "cleared by a compaction", "never": "never set"}
_RELATIONS = {
    "same": "B is the same moment",
    "later": "B goes on from A",
    "earlier": "A goes on from B",
    "parted": "from there each goes its own way",
}


def diff_json(diff: rollout.Diff, whys: Sequence[rollout.Explained | None]) -> Iterator[bytes]:
    """`rollout diff`: {before, after, relation, shared, settings, context, world, tokens, kept, items}.

    `items` are those that differ, in order: {change, before, after, why, item}; `before` and `after` are places in the
    two histories, from 0 on, null where the item does not stand. `why` is what `explain --json` says of the line in the
    log of B: {status, line, by, by_offset}, null where that is not known or was not asked for.
    """
    shared = None if diff.shared is None else pick(diff.shared, "thread_id path line end")
    head = {"before": _state(diff.before), "after": _state(diff.after), "relation": diff.relation, "shared": shared}
    values = pick(diff, "settings context world tokens")
    changed = {name: [pick(each, "key before after") for each in changes] for name, changes in values.items()}
    yield from members({**head, **changed, "kept": diff.kept_count, "items": array(_items_json(diff, whys))})


def _items_json(diff: rollout.Diff, whys: Sequence[rollout.Explained | None]) -> Iterator[bytes]:
    left = iter(whys)
    for run in diff.runs:
        for history, i, why in _items(diff, run, left) if run.change != "kept" else ():
            is_gone = run.change == "gone"
            known: dict[str, Any] = {"change": run.change, "before": i if is_gone else None}
            known |= {"after": None if is_gone else i, "why": why and pick(why, "status line by by_offset")}
            yield b"".join(members({**known, "item": iter([history.raw(i)])}))


def _items(
    diff: rollout.Diff, run: rollout.DiffRun, whys: Iterator[rollout.Explained | None]
) -> Iterator[tuple[rollout.History, int, rollout.Explained | None]]:
    """The history that has the items of a run which differs, where each stands in it, and why it went."""
    is_gone = run.change == "gone"
    history, first = (diff.before.history, run.before) if is_gone else (diff.after.history, run.after)
    for i in range(first, first + run.count):
        yield history, i, next(whys, None) if is_gone else None


def diff_rows(
    diff: rollout.Diff, whys: Sequence[rollout.Explained | None], columns: int | None, *, full: bool
) -> Iterator[Row]:
    """Which two, what they share, which values differ, the items with their numbers in A and in B.

    If `full`, whole texts below.
    """
    for title, state in (("A", diff.before), ("B", diff.after)):
        where = "" if state.path is None else f"  {state.path}"
        counted = f"byte {state.end}, {count(len(state.history), 'item')}"
        yield fact(title, f"{state.thread_id or '(unknown)'}  {counted}{where}")
    yield fact("shared", _shared(diff))
    for each in diff.settings:
        if each.key == "reference":
            yield fact("context", " → ".join(_REFERENCES.get(word, word) for word in (each.before, each.after)))
        else:
            yield fact(each.key.removeprefix("base_"), _change(each))
    if diff.before.reference_context is not None and diff.after.reference_context is not None:
        changes = (each for each in diff.context if not each.key.endswith("turn_id"))  # no two turns have the same
        yield from _facts("context", [f"{each.key}: {_change(each)}" for each in changes])
    yield from _facts("world", [f"{each.key}: {_change(each)}" for each in diff.world])
    yield from _facts("tokens", [f"{token_words(each.key)}: {_change(each)}{_growth(each)}" for each in diff.tokens])
    yield fact("items", f"{diff.kept_count:,} kept, {len(diff.gone):,} gone, {len(diff.added):,} added")
    left = iter(whys)
    for run in diff.runs:
        if run.change == "kept":
            numbers = f"{run.before + 1:,}" + (f" to {run.before + run.count:,}" if run.count > 1 else "")
            yield ("         ", (f"= {run.count:,} kept ({numbers} of A)", "dim"))
            continue
        sign, style = _SIGNS[run.change]
        for history, i, why in _items(diff, run, left):
            item = describe_at(history, i)
            label = f"{fill(preview(item.label, LABEL_CHARS), 10)} "
            row: Line = ((f"{sign} ", f"bold {style}"), f"{i + 1:>5}  ", (label, style))
            if why is not None and why.status != "visible":
                row = (*row, (f"({status_words(why)}) ", "dim"))
            if full:
                yield row
                yield Block(item.text, style)
            else:
                yield (*row, (preview(item.text, columns), style))


def _state(state: rollout.State) -> dict[str, Any]:
    return {**pick(state, "thread_id path end"), "items": len(state.history), "previous_model": state.previous_model}


def _shared(diff: rollout.Diff) -> str:
    if diff.shared is None:
        return "nothing: no line of one is in the other"
    where = f"up to line {diff.shared.line} (byte {diff.shared.end}) of {diff.shared.thread_id or '(unknown)'}"
    return f"{where}: {_RELATIONS[diff.relation]}"


def _change(each: rollout.ValueChange) -> str:
    return f"{_value(each.before)} → {_value(each.after)}"


def _value(value: object) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return preview(value if isinstance(value, str) else to_json(value), _VALUE_CHARS)


def _growth(each: rollout.ValueChange) -> str:
    numbers = [0 if value is None else value for value in (each.before, each.after)]
    if not all(type(number) is int for number in numbers):
        return ""
    return f" ({numbers[1] - numbers[0]:+,})"


def _facts(name: str, values: Sequence[str]) -> Iterator[Row]:
    """The name stands at the first only."""
    yield from (fact("" if i else name, value) for i, value in enumerate(values))
