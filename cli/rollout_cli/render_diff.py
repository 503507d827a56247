"""What differs, as rows to read; `render` says what a row is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rollout_cli.cells import fill
from rollout_cli.items import describe_at, to_json
from rollout_cli.render import LABEL_CHARS, count, fate, preview, token_words
from rollout_cli.terminal import Block, Line

if TYPE_CHECKING:
    import rollout

_VALUE_CHARS = 200
_STYLES = {"gone": "red", "added": "green"}
_SIGNS = {"gone": "-", "added": "+"}
_RELATIONS = {
    "same": "B is the same moment",
    "later": "B goes on from A",
    "earlier": "A goes on from B",
    "parted": "from there each goes its own way",
}


def head(diff: rollout.Diff) -> Iterator[Line]:
    """`rollout diff`: which two, what they share, which values differ."""
    for title, state in (("A", diff.before), ("B", diff.after)):
        where = "" if state.path is None else f"  {state.path}"
        yield _fact(
            title, f"{state.thread_id or '(unknown)'}  byte {state.end}, {count(len(state.history), 'item')}{where}"
        )
    yield _fact("shared", _shared(diff))
    for each in diff.settings:
        if each.key == "reference":
            yield _fact("context", _arrow(*(_reference(word) for word in (each.before, each.after))))
        else:
            yield _fact(each.key.removeprefix("base_"), _change(each))
    if diff.before.reference_context is not None and diff.after.reference_context is not None:
        told = (each for each in diff.context if not each.key.endswith("turn_id"))  # no two turns have the same
        yield from _facts("context", [f"{each.key}: {_change(each)}" for each in told])
    yield from _facts("world", [f"{each.key}: {_change(each)}" for each in diff.world])
    yield from _facts("tokens", [f"{token_words(each.key)}: {_change(each)}{_growth(each)}" for each in diff.tokens])
    yield _fact("items", f"{diff.kept_count:,} kept, {len(diff.gone):,} gone, {len(diff.added):,} added")


def items(
    diff: rollout.Diff, columns: int | None, fates: Sequence[rollout.Explained | None] = (), *, full: bool = False
) -> Iterator[Line | Block]:
    """The items that went and came, in order, with their numbers in A and in B; with `full`, whole texts below.

    `fates`, where they are given, say of each that went what took it away.
    """
    whys = iter(fates)
    for run in diff.runs:
        if run.change == "kept":
            numbers = f"{run.before + 1:,}" + (f" to {run.before + run.count:,}" if run.count > 1 else "")
            yield (("  ", ""), (f"{'':>5}  ", ""), (f"= {run.count:,} kept ({numbers} of A)", "dim"))
            continue
        history, first = (diff.before.history, run.before) if run.change == "gone" else (diff.after.history, run.after)
        style = _STYLES[run.change]
        for i in range(first, first + run.count):
            item = describe_at(history, i)
            label = f"{fill(preview(item.label, LABEL_CHARS), 10)} "
            row: Line = ((f"{_SIGNS[run.change]} ", f"bold {style}"), f"{i + 1:>5}  ", (label, style))
            why = next(whys, None) if run.change == "gone" else None
            if why is not None and why.status != "visible":
                row = (*row, (f"({fate(why)}) ", "dim"))
            if full:
                yield row
                yield Block(item.text, style)
            else:
                yield (*row, (preview(item.text, columns), style))


def _shared(diff: rollout.Diff) -> str:
    if diff.shared is None:
        return "nothing: no line of one is in the other"
    where = f"up to line {diff.shared.line} (byte {diff.shared.end}) of {diff.shared.thread_id or '(unknown)'}"
    return f"{where}: {_RELATIONS[diff.relation]}"


def _reference(word: str) -> str:
    return {"cleared": "cleared by a compaction", "never": "never set"}.get(word, word)


def _change(each: rollout.ValueChange) -> str:
    return _arrow(*(_value(value) for value in (each.before, each.after)))


def _arrow(before: str, after: str) -> str:
    return f"{before} → {after}"


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


def _facts(name: str, values: Sequence[str]) -> Iterator[Line]:
    """The name stands at the first only."""
    yield from (_fact("" if i else name, value) for i, value in enumerate(values))


def _fact(name: str, value: str) -> Line:
    return ((f"{name:<12}", "bold"), value)
