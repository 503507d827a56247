"""A replay that asks for no keys: rows for people, objects for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rollout_cli.cells import NARROW_COLUMNS, cut, preview, short_id, width
from rollout_cli.replay.words import FATES, describe_step, style_of
from rollout_cli.terminal import Block, Line
from rollout_cli.units import count, duration, local_time, seconds_between
from rollout_cli.views import array, encode

if TYPE_CHECKING:
    import rollout

LABEL_COLUMNS, _WIDE_COLUMNS = 10, 80
LONGEST_WAIT_S = 5.0
"""A pause that was recorded is never played longer than this."""


class _Clock:
    """What a row tells of time and tokens: it is shown the steps in their order."""

    def __init__(self) -> None:
        self.before: str | None = None
        self.began: str | None = None
        self.total: int | None = None

    def see(self, step: rollout.Step, *, is_shown: bool) -> None:
        if is_shown:
            self.before = step.record.timestamp or self.before
        if step.kind == "start":
            self.began = step.record.timestamp
        elif step.kind == "tokens":
            self.total = self.total if step.tokens is None else step.tokens.total


def rows(
    steps: Iterable[rollout.Step], columns: int | None, *, full: bool, unfold: bool, everything: bool
) -> Iterator[Line | Block]:
    """A row a step, or its whole text; what a compaction stands for is one row for all. Takes every line's step."""
    clock = _Clock()
    folded: list[rollout.Step] = []
    waiting: list[rollout.Step] = []  # what lies between items: folded if the next item is
    for step in steps:
        if not unfold and (step.status == "replaced" or (folded and step.kind not in ("item", "compaction"))):
            waiting.append(step)
            if step.status == "replaced":
                folded += waiting
                waiting = []
            continue
        yield from _let_go(folded, waiting, clock, columns, full=full, everything=everything)
        folded, waiting = [], []
        yield from _step(step, clock, columns, full=full, everything=everything)
    yield from _let_go(folded, waiting, clock, columns, full=full, everything=everything)


def _let_go(
    folded: list[rollout.Step],
    waiting: list[rollout.Step],
    clock: _Clock,
    columns: int | None,
    *,
    full: bool,
    everything: bool,
) -> Iterator[Line | Block]:
    if folded:
        steps, by = sum(step.is_story for step in folded), folded[-1].by_offset
        shown = f"{count(steps, 'step')}, replaced at byte {by}; --unfold shows them"
        yield ("   folded  ", "dim"), (shown, "dim italic")
        for step in folded:
            clock.see(step, is_shown=step.is_story)
    for step in waiting:
        yield from _step(step, clock, columns, full=full, everything=everything)


def _step(
    step: rollout.Step, clock: _Clock, columns: int | None, *, full: bool, everything: bool
) -> Iterator[Line | Block]:
    if everything or step.is_story:
        yield row(step, clock.before, columns, began=clock.began, total=clock.total)
        if full and step.kind not in ("start", "end"):
            told = describe_step(step)
            yield Block(told.text, style_of(step, told.label))
    clock.see(step, is_shown=everything or step.is_story)


def row(
    step: rollout.Step,
    before: str | None,
    columns: int | None,
    *,
    mark: str = " ",
    began: str | None = None,
    total: int | None = None,
) -> Line:
    """One step: what became of it or how long it took since `before`, a label, how its text begins.

    The end of a turn tells how long it took since it `began`, and the `total` of tokens.
    """
    told = describe_step(step)
    style, label = style_of(step, told.label), cut(told.label, LABEL_COLUMNS)
    passed = duration(seconds_between(before, step.record.timestamp))
    took = FATES.get(step.status, f"+{passed}" if passed else "")
    text = preview(told.text, columns)
    if step.kind == "start":
        begun = preview(local_time(step.record.timestamp, seconds=True), columns)
        room = _WIDE_COLUMNS if columns is None else columns
        text = text if room >= _WIDE_COLUMNS else short_id(text, columns)
        text = f"{text}  {begun}" if room >= NARROW_COLUMNS else text
    elif step.kind == "end":
        lasted = duration(seconds_between(began, step.record.timestamp))
        facts = (text, f"after {lasted}" if lasted else "", "" if total is None else f"{total:,} tokens in all")
        text = ", ".join(filter(None, facts))
    return (f"{mark} {took:>7}  ", "dim"), (label, style), " " * (LABEL_COLUMNS + 1 - width(label)), (text, style)


def document(steps: Iterable[rollout.Step], playback: rollout.Playback) -> Iterator[bytes]:
    """`rollout replay --json`: one object a step, streamed, as of the end of the session."""
    return array(
        encode(
            {
                "kind": step.kind,
                "name": step.name,
                "status": step.status,
                "by_offset": step.by_offset,
                "turn_id": step.turn_id,
                "timestamp": step.record.timestamp,
                "offset": step.record.offset,
                "end_offset": step.position.end,
                "inherited": playback.inherited(step.position),
                "reason": step.reason,
                "label": (told := describe_step(step)).label,
                "text": told.text,
            }
        )
        for step in steps
    )


def paced(
    steps: Iterable[rollout.Step], speed: float | None, sleep: Callable[[float], None], flush: Callable[[], None]
) -> Iterator[rollout.Step]:
    """The steps as they come, or in recorded time, so many times as fast; a long pause is cut."""
    before: str | None = None
    for step in steps:
        if speed is not None and (wait := wait_seconds(before, step.record.timestamp, speed)):
            flush()
            sleep(wait)
        before = step.record.timestamp or before
        yield step


def wait_seconds(before: str | None, after: str | None, speed: float) -> float:
    """How long to wait between two recorded times."""
    return min((seconds_between(before, after) or 0) / speed, LONGEST_WAIT_S)
