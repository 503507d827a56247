"""Plans in what an assistant says: `<proposed_plan>` blocks.

A block begins with a line that is the opening tag alone and ends with a line that is the closing tag alone, or with
the text; or it is one line that begins with the one and ends with the other. A tag among other words is no tag.
In a log a plan stands as an `item_completed` event with an item of type Plan, so that it can be found without its text
being searched again.
"""

from __future__ import annotations

import re

import msgspec

_OPENING, _CLOSING = "<proposed_plan>", "</proposed_plan>"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def split_plans(text: str) -> tuple[str, list[str]]:
    """The text without its plans, and the plans in order; lines keep their ends, blank plans are none."""
    if _OPENING not in text:
        return text, []
    outside: list[str] = []
    plans: list[str] = []
    inside: list[str] | None = None
    for line in _LINE.findall(text):
        bare = line.strip()
        if inside is not None:
            if bare == _CLOSING:
                plans.append("".join(inside))
                inside = None
            else:
                inside.append(line)
        elif bare == _OPENING:
            inside = []
        elif bare.startswith(_OPENING) and bare.endswith(_CLOSING):
            plans.append(bare[len(_OPENING) : -len(_CLOSING)].strip())
        else:
            outside.append(line)
    if inside is not None:
        plans.append("".join(inside))
    return "".join(outside), [plan for plan in plans if plan.strip()]


class _Item(msgspec.Struct, frozen=True):
    type: str | None = None
    text: str | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str | None = None
    item: _Item | None = None


class _Line(msgspec.Struct, frozen=True):
    payload: _Event | None = None


_line = msgspec.json.Decoder(_Line)


def plan_of(line: bytes) -> str | None:
    """The plan that a line of a log records; None for any other line."""
    if b'"Plan"' not in line:
        return None
    try:
        event = _line.decode(line).payload
    except msgspec.DecodeError:
        return None
    if event is None or event.type != "item_completed" or event.item is None or event.item.type != "Plan":
        return None
    return event.item.text
