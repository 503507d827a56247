"""A step in words: a label, a text, how long it took, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rollout_cli.items import STYLES, Described, describe, to_json

if TYPE_CHECKING:
    import rollout

FATES = {
    "rolled_back": "undone",
    "replaced": "folded",
    "removed": "removed",
    "damaged": "damaged",
}
"""What is said of a step that the model does not see (any more), by its status."""
_STYLES = {
    "turn": "bold cyan",
    "compacted": "magenta",
    "rollback": "yellow",
    "removal": "yellow",
    "error": "red",
    "damaged": "red",
}
_FATE_STYLES = {
    "rolled_back": "dim strike",
    "removed": "dim strike",
    "replaced": "dim",
    "damaged": "red",
}


def describe_step(step: rollout.Step) -> Described:
    """The label and the whole text of a step."""
    if step.kind == "item":
        return describe(step.item or {})
    if step.status == "damaged" or step.kind == "damaged":
        return Described("damaged", step.reason or "no record")
    payload = step.record.payload
    facts: Mapping[str, Any] = payload if isinstance(payload, Mapping) else {}
    if step.kind == "tokens":
        return Described("tokens", to_json(payload) if step.tokens is None else f"{step.tokens.total:,} in all")
    if step.kind in _KINDS:
        label, tell = _KINDS[step.kind]
        return Described(label, tell(facts))
    if step.kind == "end":
        return _end(step, facts)
    return Described(step.name, to_json(payload))


def style_of(step: rollout.Step, label: str) -> str:
    """The rich style of a step's words."""
    fate = _FATE_STYLES.get(step.status)
    return fate if fate is not None else _STYLES.get(label, STYLES.get(label, ""))


def _compaction(facts: Mapping[str, Any]) -> str:
    items, message = facts.get("replacement_history"), facts.get("message")
    said = message if isinstance(message, str) else ""
    if not isinstance(items, list):
        return f"the user's messages and a summary for what came before:\n{said}".rstrip(":\n")
    lines = [f"{_count(len(items), 'item')} for what came before:", *([said] if said else [])]
    for item in items:
        each = describe(item, left_by=message) if isinstance(item, Mapping) else Described("damaged", to_json(item))
        lines.append(f"{each.label}: {each.text}")
    return "\n".join(lines)


def _end(step: rollout.Step, facts: Mapping[str, Any]) -> Described:
    if step.name == "turn_aborted":
        reason = facts.get("reason")
        return Described("aborted", reason if isinstance(reason, str) else "")
    return Described("completed", "")


def _id(facts: Mapping[str, Any]) -> str:
    turn = facts.get("turn_id")
    return turn if isinstance(turn, str) else "(no id)"


def _join(facts: Mapping[str, Any], *keys: str) -> str:
    return "  ".join(value for key in keys if isinstance(value := facts.get(key), str)) or to_json(facts)


def _error(facts: Mapping[str, Any]) -> str:
    return _join(facts, "message")


def _count(number: object, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


_KINDS = {
    "start": ("turn", _id),
    "compaction": ("compacted", _compaction),
    "rollback": ("rollback", lambda facts: f"{_count(facts.get('num_turns'), 'turn')} taken back"),
    "removal": ("removal", lambda facts: f"{_count(facts.get('num_items'), 'item')} taken out"),
    "error": ("error", _error),
    "context": ("context", lambda facts: _join(facts, "model", "effort", "cwd", "approval_policy")),
    "session": ("session", lambda facts: _join(facts, "id", "cwd", "originator", "cli_version")),
}
