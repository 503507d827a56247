"""The item_completed events of a paginated log, from which Codex makes its list of turns.

In a paginated log each item that a turn shows has such an event beside it: behind the item of a user's message, ahead
of a message, the reasoning or a search of the model, ahead of the output of a command or a patch, behind a compaction.
The events that legacy logs have for that (user_message, agent_message, context_compacted) are passed over there, and
are left out where they come along with what they tell.

No reader of this project needs these events. What Codex has none for gets none: tools that it does not know, a command
that was never run, an item of another shape than format.md tells of.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from rollout.dialects.codex import patches
from rollout.dialects.codex.contextual import is_contextual
from rollout.dialects.codex.plans import split_plans
from rollout.format import strict_json
from rollout.items.calls import OUTPUTS, has_failed, printed_by
from rollout.limits import DEFAULT

PAGINATED = "paginated"
"""The `history_mode` in the session_meta of such a log."""

_COMMAND_KEYS = {
    "exec_command": "cmd",
    "shell": "command",
    "shell_command": "command",
    "local_shell": "command",
    "container.exec": "command",
}
"""The tools that run a command, and the argument that it is in: a list of words, or a line for a shell."""
_DIRECTORY_KEYS = ("workdir", "working_directory")
_PHASES = frozenset({"commentary", "final_answer"})
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_TURN_BEGINS = frozenset({"task_started", "turn_started"})
_LEGACY = {"user_message": "UserMessage", "agent_message": "AgentMessage", "context_compacted": "ContextCompaction"}
"""The events of legacy logs, and the items that tell the same here."""
_IMAGE_TAG = re.compile(r"<image(?: name=[^\n]*)?>|</image>")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_NOT_IN_URI = re.compile(rb"[^A-Za-z0-9_.~/:@!$&'()*+,;=-]")
_MOST_BYTES = DEFAULT.line_bytes - 4096
"""A longer event is left out: no item is refused because of its event."""

Record: TypeAlias = tuple[str, bytes]
"""The type of a line, and the JSON of its payload."""
Item: TypeAlias = Mapping[str, Any]


class _Call(NamedTuple):
    """A call that waits for its output; `begun_ms` is when it was written."""

    item: Item
    begun_ms: int


class _Shown(NamedTuple):
    """An item as turns show it; it stands ahead of its record, unless it `follows` that."""

    item: dict[str, Any]
    follows: bool = False
    begun_ms: int | None = None


class ItemEvents:
    """Adds the events to what is written to one log, in the order in which it is written.

    `thread` is the log's id, `cwd` the directory of its session. `turn_id` is its newest turn: what is written outside
    of turns belongs to that one, and Codex shows nothing of a turn that did not begin. `new_id` names items.
    """

    def __init__(self, thread: str, cwd: object, turn_id: str | None, new_id: Callable[[], str]) -> None:
        self._thread, self._turn_id, self._new_id = thread, turn_id, new_id
        self._cwd = cwd
        self._calls: dict[str, _Call] = {}
        self._taken: set[str] = set()  # ids in this turn: of two items with one id Codex shows the second alone
        self.writes = 0
        """So many writes are counted in."""
        self._before: tuple[str | None, object, dict[str, _Call], set[str]] | None = None  # the newest of them
        self._changes: list[Callable[[], object]] = []  # what it has done to these, as what undoes it

    def forget_newest(self) -> None:
        """The newest write does not stand: what it said is as if it had never been said. Can be repeated."""
        if self._before is not None:
            self._turn_id, self._cwd, self._calls, self._taken = self._before
            for undo in reversed(self._changes):
                undo()

    def add_to(self, records: Sequence[Record], unix_ms: int) -> list[Record]:
        """The records of one write, and their events among them; `unix_ms` is now."""
        self._changes = []
        self._before = self._turn_id, self._cwd, self._calls, self._taken
        self.writes += 1
        made: list[Record] = []
        told: set[str] = set()
        for record in records:
            shown = self._show(*record, unix_ms, told)
            told.update(each.item["type"] for each in shown)
            made += self._events((each for each in shown if not each.follows), unix_ms)
            made.append(record)
            made += self._events((each for each in shown if each.follows), unix_ms)
        return [record for record in made if _LEGACY.get(_event_type(record) or "") not in told]

    def _events(self, shown: Iterable[_Shown], unix_ms: int) -> list[Record]:
        if self._turn_id is None:
            return []
        keys = {"type": "item_completed", "thread_id": self._thread, "turn_id": self._turn_id}
        payloads = []
        for item, _, begun_ms in shown:
            times = {"started_at_ms": unix_ms if begun_ms is None else begun_ms, "completed_at_ms": unix_ms}
            payloads.append(msgspec.json.encode({**keys, "item": item, **times}))
        return [("event_msg", payload) for payload in payloads if len(payload) <= _MOST_BYTES]

    def _show(self, type: str, payload: bytes, unix_ms: int, told: set[str]) -> list[_Shown]:
        """What is shown of a record; `told` are the items of this write that were shown before."""
        if type == "compacted":
            return [_Shown({"type": "ContextCompaction", "id": self._new_id()}, follows=True)]
        if type not in ("response_item", "event_msg", "turn_context"):
            return []
        if type == "event_msg" and not _may_tell(payload):
            return []
        value = strict_json.decode_value(payload)
        if not isinstance(value, dict):
            return []
        if type == "response_item":
            return self._show_item(value, unix_ms, has_plan="Plan" in told)
        if type == "turn_context":
            self._cwd = value.get("cwd", self._cwd)
        elif value.get("type") in _TURN_BEGINS:
            self._begin(value.get("turn_id"))
        elif value.get("type") == "item_completed" and isinstance(item := value.get("item"), dict):
            told.add(str(item.get("type")))
        return []

    def _begin(self, turn_id: object) -> None:
        self._turn_id = turn_id if isinstance(turn_id, str) else None
        self._calls, self._taken = {}, set()

    def _change(self, calls: dict[str, _Call], call_id: str, call: _Call | None) -> None:
        """Sets what is known of a call, or (None) forgets it."""
        before = calls.get(call_id)
        self._changes.append(lambda: _set(calls, call_id, before))
        _set(calls, call_id, call)

    def _show_item(self, item: Item, unix_ms: int, *, has_plan: bool) -> list[_Shown]:
        kind = item.get("type")
        if kind == "message":
            return self._message(item, has_plan)
        if kind == "reasoning":
            told = {"summary_text": _texts(item.get("summary")), "raw_content": _texts(item.get("content"))}
            return [_Shown({"type": "Reasoning", "id": self._name(item), **told})]
        if kind == "web_search_call":
            action = item.get("action")
            query = action.get("query") if isinstance(action, Mapping) else None
            keys = {"query": query if isinstance(query, str) else "", "action": action}
            return [_Shown({"type": "WebSearch", "id": self._name(item), **keys})] if action else []
        call_id = item.get("call_id")
        if isinstance(call_id, str) and kind in _CALLS:
            self._change(self._calls, call_id, _Call(item, unix_ms))
        elif isinstance(call_id, str) and kind in OUTPUTS and (call := self._calls.get(call_id)) is not None:
            self._change(self._calls, call_id, None)
            shown = self._result(call_id, call.item, item)
            return [] if shown is None else [_Shown(shown | _times(shown, call, unix_ms), begun_ms=call.begun_ms)]
        return []

    def _message(self, item: Item, has_plan: bool) -> list[_Shown]:
        role, parts = item.get("role"), item.get("content")
        if not isinstance(parts, list):
            return []
        texts = _texts(parts)
        if role == "assistant":
            text = "".join(texts)
            text = split_plans(text)[0] if has_plan else text
            phase = {"phase": item["phase"]} if item.get("phase") in _PHASES else {}
            content = [{"type": "Text", "text": text}]
            return (
                [_Shown({"type": "AgentMessage", "id": self._name(item), "content": content, **phase})] if text else []
            )
        if role != "user" or is_contextual(role, texts):
            return []
        content = [part for part in map(_user_part, parts) if part is not None]
        return [_Shown({"type": "UserMessage", "id": self._new_id(), "content": content}, follows=True)]

    def _name(self, item: Item) -> str:
        """The item's own id, or one that no other item of the turn has."""
        own = item.get("id")
        name = own if isinstance(own, str) and own and own not in self._taken else self._new_id()
        if name not in self._taken:
            self._changes.append(functools.partial(self._taken.discard, name))
            self._taken.add(name)
        return name

    def _result(self, call_id: str, call: Item, output: Item) -> dict[str, Any] | None:
        """What a call and its output show; None if nothing was run, or it is not known what."""
        printed = printed_by(output.get("output"))
        if printed.exit_code is None and (has_failed(output) or printed.text.rstrip().endswith("aborted by user")):
            return None
        arguments = _arguments(call)
        command, cwd = _command(call, arguments), self._directory(arguments)
        patch = patches.patch_in(_patch_text(call, arguments, command))
        status = "completed" if printed.exit_code in (None, 0) else "failed"
        if patch is not None:
            found = patches.changes_of(patch)
            changes = {_absolute(path, cwd): _moved(change, cwd) for path, change in found.items()}
            texts = (
                {"stdout": printed.text, "stderr": ""}
                if status == "completed"
                else {"stdout": "", "stderr": printed.text}
            )
            return {"type": "FileChange", "id": call_id, "changes": changes, "status": status, **texts}
        if call.get("name") == "view_image" and isinstance(path := arguments.get("path"), str):
            return {"type": "ImageView", "id": call_id, "path": _uri(_absolute(path, cwd))}
        if not command:
            return None
        keys = {"command": command, "cwd": _uri(cwd), "parsed_cmd": [{"type": "unknown", "cmd": command[-1]}]}
        told = {"source": "agent", "status": status, "aggregated_output": printed.text, "exit_code": printed.exit_code}
        return {"type": "CommandExecution", "id": call_id, **keys, **told}

    def _directory(self, arguments: Item) -> str:
        """Where a call is carried out: an absolute path, as Codex shows no command without one."""
        cwd = self._cwd if isinstance(self._cwd, str) and _is_absolute(self._cwd) else "/"
        own = [found for key in _DIRECTORY_KEYS if isinstance(found := arguments.get(key), str)]
        return _absolute(own[0], cwd) if own else cwd


def item_events_of(
    session: Mapping[str, Any], thread: str, turn_id: str | None, new_id: Callable[[], str]
) -> ItemEvents | None:
    """For the log that this session_meta begins; None for a legacy one, which has no such events."""
    is_paginated = session.get("history_mode") == PAGINATED
    return ItemEvents(thread, session.get("cwd"), turn_id, new_id) if is_paginated else None


def _set(calls: dict[str, _Call], call_id: str, call: _Call | None) -> None:
    if call is None:
        calls.pop(call_id, None)
    else:
        calls[call_id] = call


def _may_tell(payload: bytes) -> bool:
    """Whether an event can begin a turn or complete an item; other events can be long."""
    return b"_started" in payload or b'"item_completed"' in payload


class _Event(msgspec.Struct, frozen=True):
    type: str | None = None


def _event_type(record: Record) -> str | None:
    """The type of an event; None for another record."""
    return msgspec.json.decode(record[1], type=_Event).type if record[0] == "event_msg" else None


def _times(shown: Item, call: _Call, unix_ms: int) -> dict[str, Any]:
    """How long a command took, as far as the log tells."""
    if shown["type"] != "CommandExecution":
        return {}
    seconds, ms = divmod(max(0, unix_ms - call.begun_ms), 1000)
    return {"duration": {"secs": seconds, "nanos": ms * 1_000_000}}


def _texts(parts: object) -> list[str]:
    """The texts of a list of parts."""
    found = [part.get("text") for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    return [text for text in found if isinstance(text, str)]


def _user_part(part: object) -> dict[str, Any] | None:
    """One part of a user's message; None for what stands around a picture, and for what is not known."""
    if not isinstance(part, Mapping):
        return None
    text, url = part.get("text"), part.get("image_url")
    if isinstance(text, str):
        return None if _IMAGE_TAG.fullmatch(text) else {"type": "text", "text": text, "text_elements": []}
    return {"type": "image", "image_url": url} if isinstance(url, str) else None


def _arguments(call: Item) -> Item:
    """The arguments of a call: an object, be it JSON in a string."""
    found = call.get("action", call.get("arguments"))
    if isinstance(found, str):
        data = found.encode(errors="surrogatepass")
        try:
            found = None if strict_json.is_too_deep(data, DEFAULT.depth) else msgspec.json.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            found = None
    return found if isinstance(found, Mapping) else {}


def _command(call: Item, arguments: Item) -> list[str]:
    """The words of the command that a call asks for; none if it is no such call."""
    name = "local_shell" if call.get("type") == "local_shell_call" else call.get("name")
    given = arguments.get(_COMMAND_KEYS.get(name, "")) if isinstance(name, str) else None
    if isinstance(given, str):
        return ["bash", "-lc", given]
    return [word for word in given if isinstance(word, str)] if isinstance(given, list) else []


def _patch_text(call: Item, arguments: Item, command: Sequence[str]) -> str:
    """What holds the patch of a call; nothing if none is asked for."""
    if call.get("name") == "apply_patch":
        given = arguments.get("input", call.get("input", call.get("arguments")))
        return given if isinstance(given, str) else ""
    if not any(word.lstrip().startswith(("apply_patch", "applypatch")) for word in command):
        return ""
    return command[-1]


def _moved(change: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    target = change.get("move_path")
    return {**change, "move_path": _absolute(target, cwd)} if target else dict(change)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _DRIVE.match(path) is not None


def _absolute(path: str, cwd: str) -> str:
    return path if _is_absolute(path) else f"{cwd.rstrip('/')}/{path.removeprefix('./')}"


def _uri(path: str) -> str:
    path = path.replace("\\", "/") if _DRIVE.match(path) else path
    data = _NOT_IN_URI.sub(lambda found: b"%%%02X" % found[0][0], path.encode(errors="replace"))
    return f"file://{'' if path.startswith('/') else '/'}{data.decode()}"
