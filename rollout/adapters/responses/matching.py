"""Whether a request asks what the recorded model was asked, and if not, where the two part.

Items are compared by what they mean to a model. Ids that a client makes up, status, phase, metadata, nulls, empty
lists, and whether a text stands alone or in a part are no difference; nor is an encrypted text that only one side has.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import itertools
import json
from collections.abc import Collection, Sequence
from typing import Any

from rollout.dialects.codex.contextual import is_program_message
from rollout.dialects.codex.prompt import PROGRAM_KEYS, shown_part, unwrap_item
from rollout.items.kinds import Item, is_visible
from rollout.items.truncation import Truncation, cut_text

_CLIENT_KEYS = frozenset({"id", "status", "phase", "created_by", *PROGRAM_KEYS})
_EXCERPT_CHARACTERS = 80
_LEAD_CHARACTERS = 20


class Ignored(enum.StrEnum):
    """What may be different in a request without being a departure."""

    OUTPUTS = "outputs"
    """What tools gave; that they were called, and by which id, still counts."""
    CONTEXT = "context"
    """Messages that the program writes (S5): directory, date, permissions, instructions of the project."""
    REASONING = "reasoning"
    """What the model thought: some clients do not send it back."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """One comparable item; `place` is its index in what it was taken from."""

    place: int
    item: Item

    @property
    def key(self) -> str:
        """Equal for items that fit each other, if none was cut."""
        compared = {key: self.item[key] for key in self.item if key != "encrypted_content"}
        return hashlib.blake2b(json.dumps(compared, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a request parts from the recording.

    It is item `index` of both, counted from 0 (`place` in the request's own input); one that is None has ended there.
    `where` is the key inside of the item, `content[0].text`, say.
    """

    index: int
    place: int
    recorded: Item | None
    asked: Item | None
    where: str = ""
    told: str = ""


def make_comparable(items: Sequence[Any], ignored: Collection[Ignored] = ()) -> list[Asked]:
    """The items that count, each in the form in which it is compared."""
    found = []
    for place, given in enumerate(items):
        item = unwrap_item(given) if isinstance(given, dict) else None
        if item is None:
            continue
        item = _normalize(item)
        if not is_visible(str(item.get("type")), item.get("role")):
            continue
        let_pass = may_ignore(item)
        if let_pass in ignored:
            if let_pass is not Ignored.OUTPUTS:
                continue
            item = {key: item[key] for key in ("type", "call_id") if key in item}
        found.append(Asked(place, item))
    return found


def find_difference(
    recorded: Sequence[Asked], asked: Sequence[Asked], truncation: Truncation | None = None
) -> Difference | None:
    """Where they part; None if they fit. An output that was cut by `truncation` on its way to the model fits too."""
    for index, (old, new) in enumerate(zip(recorded, asked, strict=False)):
        if old.item != new.item and (apart := _find_leaf(*_fair(old.item, new.item, truncation))) is not None:
            where, left, right = apart
            return Difference(index, new.place, old.item, new.item, where.lstrip("."), _tell(left, right))
    index = min(len(recorded), len(asked))
    if len(recorded) > index:
        return Difference(index, asked[-1].place + 1 if asked else 0, recorded[index].item, None)
    return Difference(index, asked[index].place, None, asked[index].item) if len(asked) > index else None


def may_ignore(item: Item | None) -> Ignored | None:
    """What would have to be ignored for this item to be different."""
    if item is None:
        return None
    if is_program_message(item):
        return Ignored.CONTEXT
    if item.get("type") == "reasoning":
        return Ignored.REASONING
    return Ignored.OUTPUTS if str(item.get("type")).endswith("_output") else None


def describe(item: Item) -> str:
    """An item in a few words."""
    kind = item.get("type")
    if kind == "message":
        texts = [part.get("text") for part in item.get("content") or () if isinstance(part, dict)]
        return f"{item.get('role')} message {_excerpt(next((text for text in texts if isinstance(text, str)), ''), 0)}"
    name = item.get("name") or item.get("call_id")
    return f"{kind} {name}" if isinstance(name, str) else str(kind)


def _normalize(item: Item) -> Item:
    named = {"call_id": item.get("id"), **item} if item.get("type") == "local_shell_call" else item  # as of old
    item = _tidy({key: value for key, value in named.items() if key not in _CLIENT_KEYS})
    if "type" not in item and "role" in item:
        item["type"] = "message"
    content = item.get("content")
    if item.get("type") == "message":
        parts = [{"text": content}] if isinstance(content, str) else content or []
        item["content"] = [  # a text of whatever kind is text
            {**part, "type": "text"} if isinstance(part, dict) and isinstance(part.get("text"), str) else part
            for part in map(shown_part, parts)
        ]
    output = item.get("output")
    if isinstance(output, list):
        output = item["output"] = [shown_part(part) for part in output]
    if isinstance(output, list) and len(output) == 1 and isinstance(output[0], dict) and "text" in output[0]:
        item["output"] = output[0]["text"]
    return item


def _tidy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tidy(inner) for key, inner in value.items() if inner is not None and inner != []}
    return [_tidy(inner) for inner in value] if isinstance(value, list) else value


def _fair(old: Item, new: Item, truncation: Truncation | None) -> tuple[Item, Item]:
    """Both without what need not be equal."""
    if ("encrypted_content" in old) != ("encrypted_content" in new):
        old, new = ({key: item[key] for key in item if key != "encrypted_content"} for item in (old, new))
    output = old.get("output")
    if truncation is not None and isinstance(output, str) and output != new.get("output"):
        cut = cut_text(output, truncation.budget_bytes, truncation.mode)
        old = {**old, "output": cut} if cut == new.get("output") else old
    return old, new


def _find_leaf(old: Any, new: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """The first place where two values differ, and what is there; None if they are equal."""
    if old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        for key in ("type", "role", *old, *new):
            if old.get(key) != new.get(key):
                return _find_leaf(old.get(key), new.get(key), f"{where}.{key}")
    if isinstance(old, list) and isinstance(new, list):
        for i, (left, right) in enumerate(zip(old, new, strict=False)):
            if left != right:
                return _find_leaf(left, right, f"{where}[{i}]")
        i = min(len(old), len(new))
        return f"{where}[{i}]", old[i] if i < len(old) else None, new[i] if i < len(new) else None
    return where, old, new


def _tell(old: Any, new: Any) -> str:
    """Both values around where they begin to differ."""
    if isinstance(old, str) and isinstance(new, str):
        at = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    else:
        at = 0
        dumped = (json.dumps(value, ensure_ascii=False, default=str) for value in (old, new))
        old, new = (text if text != "null" else "nothing" for text in dumped)
    behind = f"from character {at} on: " if at else ""
    return f"{behind}recorded {_excerpt(old, at)}, asked {_excerpt(new, at)}"


def _excerpt(text: str, at: int) -> str:
    begin = max(at - _LEAD_CHARACTERS, 0)
    end = begin + _EXCERPT_CHARACTERS
    shown = json.dumps(text[begin:end], ensure_ascii=False)
    return f"{'…' if begin else ''}{shown}{'…' if end < len(text) else ''}"
