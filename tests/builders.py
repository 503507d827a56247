"""Tiny builders of rollout lines, and of the lineage of a recorded case.

Each builder returns one line without its newline, in the compact form that the programs write;
`log` joins lines to a file.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import zstandard

PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
"""One pixel."""
TIME = "2026-03-20T10:00:00.000Z"
THREAD = "019d0000-0000-7000-8000-000000000001"


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def log(*lines: bytes) -> bytes:
    """A file of these lines, each ended."""
    return b"".join(line + b"\n" for line in lines)


def line(kind: str, payload: object, **more: object) -> bytes:
    return dump({"timestamp": TIME, **more, "type": kind, "payload": payload})


def event(kind: str, **keys: object) -> bytes:
    return line("event_msg", {"type": kind, **keys})


def item(kind: str, **keys: object) -> bytes:
    return line("response_item", {"type": kind, **keys})


# Items as values, for replacement histories and for expectations


def text_item(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def user_item(*texts: str) -> dict[str, Any]:
    return text_item("user", *texts)


def assistant_item(*texts: str) -> dict[str, Any]:
    return text_item("assistant", *texts)


# The session and its turns


def session_meta(id: str = THREAD, **keys: object) -> bytes:
    return line("session_meta", {"id": id, "timestamp": TIME, "cwd": "/p", "model_provider": "m", **keys})


def started(turn_id: str | None = None) -> bytes:
    return event("task_started", **_named(turn_id))


def completed(turn_id: str | None = None) -> bytes:
    return event("task_complete", **_named(turn_id))


def aborted(turn_id: str | None = None, reason: str = "interrupted") -> bytes:
    return event("turn_aborted", **_named(turn_id), reason=reason)


def context(turn_id: str | None = None, model: str = "m1", **keys: object) -> bytes:
    return line("turn_context", {**_named(turn_id), "model": model, **keys})


def user_message(text: str = "q") -> bytes:
    return event("user_message", message=text)


# Items


def user(*texts: str) -> bytes:
    return line("response_item", user_item(*texts))


def assistant(*texts: str) -> bytes:
    return line("response_item", assistant_item(*texts))


def developer(*texts: str) -> bytes:
    return line("response_item", text_item("developer", *texts))


def contextual(tag: str = "environment_context", text: str = "x") -> bytes:
    """A user message that the program wrote."""
    return user(f"<{tag}>{text}</{tag}>")


def permissions(text: str = "p") -> bytes:
    """A developer message that the program wrote."""
    return developer(f"<permissions instructions>{text}</permissions instructions>")


def call(call_id: str = "c1") -> bytes:
    return item("function_call", name="f", arguments="{}", call_id=call_id)


def output(call_id: str = "c1", text: str = "out") -> bytes:
    return item("function_call_output", call_id=call_id, output=text)


def agent_message(text: str = "do", **keys: object) -> bytes:
    """An instruction from another agent, as an item."""
    names = {"author": "/root", "recipient": "/root/a", **keys}
    return item("agent_message", **names, content=[{"type": "input_text", "text": text}])


def inter_agent(text: str = "do", **keys: object) -> bytes:
    """An instruction from another agent, as a record of its own."""
    names = {"author": "/root", "recipient": "/root/a", "trigger_turn": True, **keys}
    return line("inter_agent_communication", {**names, "content": text})


# What changes the history


def compacted(replacement: Iterable[object], message: str = "", **keys: object) -> bytes:
    return line("compacted", {"message": message, "replacement_history": list(replacement), **keys})


def legacy_compacted(message: str = "S", **keys: object) -> bytes:
    return line("compacted", {"message": message, **keys})


def rolled_back(num_turns: object = 1) -> bytes:
    return event("thread_rolled_back", num_turns=num_turns)


def items_removed(num_items: object = 1) -> bytes:
    return event("items_removed", num_items=num_items)


# Beside the history


def world_state(state: object, *, full: object = True) -> bytes:
    return line("world_state", {"full": full, "state": state})


def token_count(total: int) -> bytes:
    return event("token_count", info={"total_token_usage": {"total_tokens": total}})


def usage_record(total: int) -> bytes:
    return line("token_usage_record", {"thread_token_usage": {"total_tokens": total}})


# The format of 2025


def bare_meta(id: str = THREAD, **keys: object) -> bytes:
    return dump({"id": id, "timestamp": TIME, **keys})


def bare_item(value: object) -> bytes:
    return dump(value)


def bare_state() -> bytes:
    return dump({"record_type": "state"})


def _named(turn_id: str | None) -> dict[str, object]:
    return {} if turn_id is None else {"turn_id": turn_id}


# Recorded cases


@dataclasses.dataclass(frozen=True)
class Lineage:
    """A file and the byte prefixes of the files that it goes on from, oldest first."""

    data: bytes
    bases: tuple[bytes, ...]
    missing_base: bool


def read_lineage(path: Path, home: Path) -> Lineage:
    """Follow `history_base` through the files of `home`."""
    data = read_plain(path)
    bases: list[bytes] = []
    front = data
    while (wanted := _history_base(front)) is not None:
        base = _base(home, wanted["thread_id"])
        if base is None or len(base) < wanted["end_byte_offset"]:
            return Lineage(data, tuple(bases), True)
        front = base[: wanted["end_byte_offset"]]
        front = front[: front.rfind(b"\n") + 1]
        bases.insert(0, front)
    return Lineage(data, tuple(bases), False)


def read_plain(path: Path) -> bytes:
    data = path.read_bytes()
    plain = b""
    while path.suffix == ".zst" and data:
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        plain += unpacker.decompress(data)
        assert unpacker.eof
        data = unpacker.unused_data
    return plain if path.suffix == ".zst" else data


def _history_base(data: bytes) -> dict[str, Any] | None:
    for raw in data.split(b"\n"):
        if b'"session_meta"' in raw:
            payload = json.loads(raw)["payload"]
            base: dict[str, Any] | None = payload.get("history_base")
            return base
    return None


def _base(home: Path, id: str) -> bytes | None:
    """The file whose name has that id last, wherever in the home."""
    for path in sorted(home.rglob("rollout-*.jsonl*")):
        if path.name.partition(".")[0][-36:].lower() == id.lower():
            return read_plain(path)
    return None
