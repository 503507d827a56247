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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from rollout.dialects.codex import session_meta
from rollout.dialects.codex.contextual import IMAGE_TAG, is_contextual
from rollout.dialects.codex.encoder import split_plans
from rollout.dialects.codex.names import TURN_STARTED
from rollout.format.strict_json import decode_value, value_at, value_in
from rollout.items.kinds import texts_in
from rollout.items.texts import OUTPUTS, has_failed, printed_by
from rollout.limits import DEFAULT

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
_LEGACY = {"user_message": "UserMessage", "agent_message": "AgentMessage", "context_compacted": "ContextCompaction"}
"""The events of legacy logs, and the items that tell the same here."""
_FOLLOWING = frozenset({"UserMessage", "ContextCompaction"})
"""What stands behind its record; all others stand ahead of it."""
_PATCHED_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.*)\n", re.MULTILINE)
_MOVE = "*** Move to: "
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_NOT_IN_URI = re.compile(rb"[^A-Za-z0-9_.~/:@!$&'()*+,;=-]")
_MOST_BYTES = DEFAULT.line_bytes - 4096
"""A longer event is left out: no item is refused because of its event."""

T = TypeVar("T")
Record: TypeAlias = tuple[str, bytes]
"""The type of a line, and the JSON of its payload."""
Item: TypeAlias = Mapping[str, Any]


class _Call(NamedTuple):
    """A call that waits for its output; `begun_ms` is when it was written."""

    item: Item
    begun_ms: int


class ItemEvents:
    """Adds the events to what is written to one log, in the order in which it is written.

    `thread` is the log's id, `cwd` the directory of its session. `turn_id` is its newest turn: what is written outside
    of turns belongs to that one, and Codex shows nothing of a turn that did not begin. `new_id` names items.
    """

    def __init__(self, thread: str, cwd: object, turn_id: str | None, new_id: Callable[[], str]) -> None:
        self._thread, self._turn_id, self._new_id = thread, turn_id, new_id
        self._cwd = cwd
        self._calls: dict[str, _Call | None] = {}  # of this turn; None: it has its output
        self._taken: dict[str, bool | None] = {}  # ids in it: of two items with one id Codex shows the second alone
        self.writes = 0
        """So many writes are counted in."""
        self._before = (self._turn_id, self._cwd, self._calls, self._taken)  # the newest of them
        self._undo: list[Callable[[], None]] = []  # what it has changed in these

    def forget_newest(self) -> None:
        """The newest write does not stand: what it said is as if it had never been said. Can be repeated."""
        self._turn_id, self._cwd, self._calls, self._taken = self._before
        for undo in reversed(self._undo):
            undo()

    def _set(self, known: dict[str, T | None], key: str, value: T | None) -> None:
        """Changes what is known of a call or an id, until the write is forgotten."""
        self._undo.append(functools.partial(known.__setitem__, key, known.get(key)))
        known[key] = value

    def add_to(self, records: Sequence[Record], unix_ms: int) -> list[Record]:
        """The records of one write, and their events among them; `unix_ms` is now."""
        self._undo = []
        self._before = self._turn_id, self._cwd, self._calls, self._taken
        self.writes += 1
        made: list[Record] = []
        told: set[str] = set()
        for record in records:
            item, begun_ms = self._show(*record, unix_ms, told)
            made.append(record)
            if item is None:
                continue
            told.add(item["type"])
            keys = {"type": "item_completed", "thread_id": self._thread, "turn_id": self._turn_id, "item": item}
            payload = msgspec.json.encode({**keys, "started_at_ms": begun_ms, "completed_at_ms": unix_ms})
            if self._turn_id is not None and len(payload) <= _MOST_BYTES:
                at = len(made) if item["type"] in _FOLLOWING else len(made) - 1
                made.insert(at, ("event_msg", payload))
        dropped = {type for type, kind in _LEGACY.items() if kind in told}
        if not dropped:
            return made
        types = [value_at(decode_value(data), "type") if type == "event_msg" else None for type, data in made]
        return [record for record, type in zip(made, types, strict=True) if type not in dropped]

    def _show(self, type: str, payload: bytes, unix_ms: int, told: set[str]) -> tuple[dict[str, Any] | None, int]:
        """What is shown of a record, and when that began; `told` are the items of this write that were shown before."""
        if type == "compacted":
            return {"type": "ContextCompaction", "id": self._new_id()}, unix_ms
        is_telling = type in ("response_item", "turn_context") or (
            type == "event_msg" and (b"_started" in payload or b'"item_completed"' in payload)  # others can be long
        )
        value = decode_value(payload) if is_telling else None
        if not isinstance(value, dict):
            return None, unix_ms
        kind, call_id = value.get("type"), value.get("call_id")
        if type == "turn_context":
            self._cwd = value.get("cwd", self._cwd)
        elif type == "event_msg" and kind in TURN_STARTED:
            turn_id = value.get("turn_id")
            self._turn_id = turn_id if isinstance(turn_id, str) else None
            self._calls, self._taken = {}, {}
        elif type == "event_msg":
            if kind == "item_completed" and isinstance(item := value.get("item"), dict):
                told.add(str(item.get("type")))
        elif not isinstance(call_id, str) or (kind not in _CALLS and kind not in OUTPUTS):
            return self._said(value, has_plan="Plan" in told), unix_ms
        elif kind in _CALLS:
            self._set(self._calls, call_id, _Call(value, unix_ms))
        elif (call := self._calls.get(call_id)) is not None:
            self._set(self._calls, call_id, None)
            return self._result(call_id, call, value, unix_ms), call.begun_ms
        return None, unix_ms

    def _said(self, item: Item, *, has_plan: bool) -> dict[str, Any] | None:
        kind, role, parts = item.get("type"), item.get("role"), item.get("content")
        texts = texts_in(parts)
        if kind == "reasoning":
            told = {"summary_text": texts_in(item.get("summary")), "raw_content": texts}
            return {"type": "Reasoning", "id": self._name(item), **told}
        if kind == "web_search_call" and (action := item.get("action")):
            query = value_at(action, "query")
            keys = {"query": query if isinstance(query, str) else "", "action": action}
            return {"type": "WebSearch", "id": self._name(item), **keys}
        if kind != "message" or not isinstance(parts, list):
            return None
        if role == "user" and not is_contextual(role, texts):
            content = [part for part in map(_user_part, parts) if part is not None]
            return {"type": "UserMessage", "id": self._new_id(), "content": content}
        text = "".join(texts) if role == "assistant" else ""
        if not (text := split_plans(text)[0] if has_plan else text):
            return None
        phase = {"phase": item["phase"]} if item.get("phase") in _PHASES else {}
        return {"type": "AgentMessage", "id": self._name(item), "content": [{"type": "Text", "text": text}], **phase}

    def _name(self, item: Item) -> str:
        """The item's own id, or one that no other item of the turn has."""
        own = item.get("id")
        name = own if isinstance(own, str) and own and not self._taken.get(own) else self._new_id()
        self._set(self._taken, name, True)
        return name

    def _result(self, call_id: str, made: _Call, output: Item, unix_ms: int) -> dict[str, Any] | None:
        """What a call and its output show; None if nothing was run, or it is not known what."""
        call, printed = made.item, printed_by(output.get("output"))
        if printed.exit_code is None and (has_failed(output) or printed.text.rstrip().endswith("aborted by user")):
            return None
        found = call.get("action", call.get("arguments"))
        found = value_in(found, DEFAULT.line_bytes) if isinstance(found, str) else found
        arguments: Item = found if isinstance(found, Mapping) else {}
        cwd = self._cwd if isinstance(self._cwd, str) and _is_absolute(self._cwd) else "/"
        for own in [given for key in _DIRECTORY_KEYS if isinstance(given := arguments.get(key), str)][:1]:
            cwd = _absolute(own, cwd)
        command = _command(call, arguments)
        is_fine = printed.exit_code in (None, 0)
        status = "completed" if is_fine else "failed"
        changes = _changes_of(_patch_text(call, arguments, command), cwd)
        if changes is not None:
            streams = {"stdout": printed.text if is_fine else "", "stderr": "" if is_fine else printed.text}
            return {"type": "FileChange", "id": call_id, "changes": changes, "status": status, **streams}
        if call.get("name") == "view_image" and isinstance(path := arguments.get("path"), str):
            return {"type": "ImageView", "id": call_id, "path": _uri(_absolute(path, cwd))}
        if not command:
            return None
        seconds, ms = divmod(max(0, unix_ms - made.begun_ms), 1000)
        return {
            "type": "CommandExecution",
            "id": call_id,
            "command": command,
            "cwd": _uri(cwd),
            "parsed_cmd": [{"type": "unknown", "cmd": command[-1]}],
            "source": "agent",
            "status": status,
            "aggregated_output": printed.text,
            "exit_code": printed.exit_code,
            "duration": {"secs": seconds, "nanos": ms * 1_000_000},
        }


def item_events_of(
    session: Mapping[str, Any], thread: str, turn_id: str | None, new_id: Callable[[], str]
) -> ItemEvents | None:
    """For the log that this session_meta begins; None for a legacy one, which has no such events."""
    is_paginated = session_meta.is_paginated(session)
    return ItemEvents(thread, session.get("cwd"), turn_id, new_id) if is_paginated else None


def _user_part(part: object) -> dict[str, Any] | None:
    """One part of a user's message; None for what stands around a picture, and for what is not known."""
    if not isinstance(part, Mapping):
        return None
    text, url = part.get("text"), part.get("image_url")
    if isinstance(text, str):
        return None if IMAGE_TAG.fullmatch(text) else {"type": "text", "text": text, "text_elements": []}
    return {"type": "image", "image_url": url} if isinstance(url, str) else None


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


def _changes_of(text: str, cwd: str) -> dict[str, dict[str, Any]] | None:
    """The changes by path of the patch that a text holds (in a here-document, say); None if it holds none.

    {"type": "add", "content"}, {"type": "delete", "content"} or {"type": "update", "unified_diff", "move_path"}: what
    stood in a deleted file is not in the patch, nor are the numbers of the lines that change.

    *** Begin Patch
    *** Add File: a.txt
    +a line
    *** Update File: b.txt
    *** Move to: c.txt
    @@ def f():
    -    old
    +    new
    *** Delete File: d.txt
    *** End Patch
    """
    begin = text.find("*** Begin Patch")
    first, end = text.find("\n", begin), text.find("\n*** End Patch", begin)
    if not 0 <= begin < first <= end:
        return None
    changes: dict[str, dict[str, Any]] = {}
    _, *sections = _PATCHED_FILE.split(text[first + 1 : end + 1])
    for kind, path, body in zip(sections[::3], sections[1::3], sections[2::3], strict=True):
        moves = [line for line in body.split("\n") if line.startswith(_MOVE)]
        lines = [line for line in body.split("\n")[:-1] if line not in ("*** End of File", *moves)]
        if kind == "Update":
            target = _absolute(moves[-1].removeprefix(_MOVE), cwd) if moves else None
            change = {"unified_diff": "".join(f"{line}\n" for line in lines), "move_path": target}
        else:
            change = {"content": "".join(f"{line[1:] if kind == 'Add' else line}\n" for line in lines)}
        changes[_absolute(path, cwd)] = {"type": kind.lower(), **change}
    return changes


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _DRIVE.match(path) is not None


def _absolute(path: str, cwd: str) -> str:
    return path if _is_absolute(path) else f"{cwd.rstrip('/')}/{path.removeprefix('./')}"


def _uri(path: str) -> str:
    path = path.replace("\\", "/") if _DRIVE.match(path) else path
    data = _NOT_IN_URI.sub(lambda found: b"%%%02X" % found[0][0], path.encode(errors="replace"))
    return f"file://{'' if path.startswith('/') else '/'}{data.decode()}"
