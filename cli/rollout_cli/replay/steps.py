"""The steps of a session to be read: each in words and as a row, all of them printed or as objects for scripts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator

import rollout
from rollout_cli.cells import NARROW_COLUMNS, cut, preview, short_id, width
from rollout_cli.items import STYLES, Described, describe, describe_record
from rollout_cli.terminal import Block, Line
from rollout_cli.units import count, duration, local_time, seconds_between
from rollout_cli.views import array, pick

_LABEL_COLUMNS, _WIDE_COLUMNS = 10, 80
LONGEST_WAIT_S = 5.0
"""A pause that was recorded is never played longer than this."""
_STATUSES = {
    "rolled_back": ("undone", "dim strike"),
    "removed": ("removed", "dim strike"),
    "replaced": ("folded", "dim"),
    "damaged": ("damaged", "red"),
}
"""What is said of a step that the model does not see (any more), and its style, by its status."""
_STYLES = {
    "start": "bold cyan",
    "compaction": "magenta",
    **dict.fromkeys(("rollback", "removal"), "yellow"),
    **dict.fromkeys(("error", "damaged"), "red"),
}
"""By the kind of a step; items have those of `items.STYLES`."""


def describe_step(step: rollout.Step) -> Described:
    """The label and the whole text of a step."""
    if step.kind == "item":
        return describe(step.item or {})
    if step.status == "damaged" or step.kind == "damaged":
        return Described("damaged", step.reason or "no record")
    return describe_record(step.record)


def style_of(step: rollout.Step, label: str) -> str:
    """The rich style of a step's words."""
    if step.status in _STATUSES:
        return _STATUSES[step.status][1]
    return _STYLES.get(step.kind, STYLES.get(label, ""))


@dataclasses.dataclass(slots=True)
class Clock:
    """What a row tells of time and tokens: the time of the row before, when the turn began, the session's total."""

    before: str | None = None
    began: str | None = None
    total: rollout.Tokens | None = None

    def see(self, step: rollout.Step, *, is_shown: bool) -> None:
        """The next step."""
        if is_shown:
            self.before = step.record.timestamp or self.before
        if step.kind == "start":
            self.began = step.record.timestamp
        elif step.kind == "tokens":
            self.total = step.record.tokens or self.total


def row(step: rollout.Step, clock: Clock, columns: int | None, mark: str = " ") -> Line:
    """One step: what became of it or how long it took, a label, how its text begins; of a turn's end what it took."""
    told, time = describe_step(step), step.record.timestamp
    style, label = style_of(step, told.label), cut(told.label, _LABEL_COLUMNS)
    passed = duration(seconds_between(clock.before, time))
    took = _STATUSES[step.status][0] if step.status in _STATUSES else f"+{passed}" if passed else ""
    text = preview(told.text, columns)
    if step.kind == "start":
        room = _WIDE_COLUMNS if columns is None else columns
        text = text if room >= _WIDE_COLUMNS else short_id(text, columns)
        begun = preview(local_time(time, seconds=True), columns)
        text = f"{text}  {begun}" if room >= NARROW_COLUMNS else text
    elif step.kind == "end":
        lasted = duration(seconds_between(clock.began, time))
        total = "" if clock.total is None else f"{clock.total.total:,} tokens in all"
        facts = (text, f"after {lasted}" if lasted else "", total)
        text = ", ".join(filter(None, facts))
    return (f"{mark} {took:>7}  ", "dim"), (label, style), " " * (_LABEL_COLUMNS + 1 - width(label)), (text, style)


def steps_json(steps: Iterable[rollout.Step], playback: rollout.Playback) -> Iterator[bytes]:
    """`rollout replay --json`: one object a step, streamed, as of the end of the session."""
    return array(
        {
            **pick(step, "kind name status by_offset turn_id"),
            **pick(step.record, "timestamp offset"),
            "end_offset": step.position.end,
            "inherited": playback.inherited(step.position),
            "reason": step.reason,
            **describe_step(step)._asdict(),
        }
        for step in steps
    )


def steps_rows(
    steps: Iterable[rollout.Step], columns: int | None, *, full: bool, unfold: bool, everything: bool
) -> Iterator[Line | Block]:
    """A row a step, or its whole text; what a compaction stands for is one row for all. Takes every line's step."""
    clock, folded, by = Clock(), 0, None
    waiting: list[rollout.Step] = []  # what lies between items: folded if the next item is
    for step in itertools.chain(steps, [None]):
        if step is not None and step.status == "replaced" and not unfold:
            for each in (*waiting, step):
                folded += each.is_story
                clock.see(each, is_shown=each.is_story)
            waiting, by = [], step.by_offset
        elif step is not None and folded and step.kind not in ("item", "compaction"):
            waiting.append(step)
        else:
            if folded:
                words = f"{count(folded, 'step')}, replaced at byte {by}; --unfold shows them"
                yield ("   folded  ", "dim"), (words, "dim italic")
            for each in (*waiting, *([] if step is None else [step])):
                is_shown = everything or each.is_story
                if is_shown:
                    yield row(each, clock, columns)
                if is_shown and full and each.kind not in ("start", "end"):
                    told = describe_step(each)
                    yield Block(told.text, style_of(each, told.label))
                clock.see(each, is_shown=is_shown)
            waiting, folded = [], 0


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
