"""S6: the history made sendable.

A call without its output gets the output `aborted` right behind it, an output without its call goes; keys that only
programs read go; long tool outputs are cut in the middle. Empty text parts of an output that has a line of its own go.
What an agent framework had wrapped into a `session_item` is sent as it was, or not at all if it is no item.

What no model is sent as bytes becomes a short text that says so, in the words of Codex 0.169. An image stays, where the
model reads images, if it is there as bytes that begin and end as a PNG, a JPEG, a GIF or a WebP does, or if only the
model's provider can tell what it is (a file's id, another scheme). No audio stays.
"""

from __future__ import annotations

import binascii
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from rollout.dialects.codex.contextual import is_program_message
from rollout.items.history import History
from rollout.items.kinds import HIDDEN_ITEM_TYPES, SESSION_ITEM, Item
from rollout.items.texts import CALLS
from rollout.items.truncation import Truncation, cut_text

PROGRAM_KEYS = frozenset({"metadata", "internal_chat_message_metadata_passthrough"})
"""Keys of an item that are never sent."""

_OUTPUT_OF = {kind: call.output for kind, call in CALLS.items() if call.output is not None}
_OUTPUTS = frozenset(_OUTPUT_OF.values())
_SHELL_OUTPUT = "local_shell_call_output"
"""What other clients write behind a local_shell_call; Codex writes a function_call_output."""
_NOT_SENT = HIDDEN_ITEM_TYPES | {"configuration_update"}
_SENT_AS = {"compaction_summary": "compaction"}
_DATA = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),(.*)", re.IGNORECASE | re.DOTALL)
_AUDIO_TYPES = frozenset(f"audio/{name}" for name in "wav x-wav wave vnd.wave mpeg mp3 mp4 m4a x-m4a webm ogg".split())
_PNG, _JPEG, _GIF = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", (b"GIF87a", b"GIF89a")
_LOOK_BYTES = 4096
_JPEG_SCAN = 0xDA


def make_prompt(
    history: Iterable[Item],
    *,
    images: bool = True,
    truncation: Truncation | None = None,
    fresh_context: Sequence[Item] | None = None,
) -> list[Item]:
    """The items to send, new objects, oldest first.

    `images`: whether the model reads images. `truncation`: the most that one tool output may take (None: uncut).
    `fresh_context`: developer messages that stand in for the program's old ones (given after a compaction).
    """
    own_lines = history.has_own_line if isinstance(history, History) else (lambda i: True)
    items = []
    for i, given in enumerate(history):
        item = unwrap_item(given)
        if item is not None and item.get("type") not in _NOT_SENT:
            items.append(_strip(item, without_empty=own_lines(i), images=images))
    items = _pair(items)
    if fresh_context is not None:
        items = _refresh(items, fresh_context)
    if truncation is not None:
        for item in items:
            if item.get("type") in _OUTPUTS and "output" in item:
                item["output"] = _cut(item["output"], truncation)
    return items


def unwrap_item(item: Item) -> Item | None:
    """What a `session_item` holds, if it is a message or an item; None if it is not."""
    if item.get("type") != SESSION_ITEM:
        return item
    inner = item.get("item")
    if not isinstance(inner, dict):
        return None
    if isinstance(inner.get("type"), str):
        return inner
    return {"type": "message", **inner} if isinstance(inner.get("role"), str) and "type" not in inner else None


def _strip(item: Item, *, without_empty: bool, images: bool) -> Item:
    sent = {key: value for key, value in item.items() if key not in PROGRAM_KEYS}
    kind, content = sent.get("type"), sent.get("content")
    if kind in _SENT_AS:
        sent["type"] = _SENT_AS[kind]
    elif kind == "reasoning" and not (isinstance(content, list) and any(_type_of(part) != "text" for part in content)):
        sent.pop("content", None)  # plain texts alone are not sent back
    elif kind == "image_generation_call" and sent.get("result") and not images:
        sent["result"] = ""
    for key in ("content", "output"):
        parts = sent.get(key)
        if isinstance(parts, list):
            if without_empty and key == "output" and kind in _OUTPUTS:
                parts = [part for part in parts if _type_of(part) != "input_text" or part.get("text") != ""]
            sent[key] = [shown_part(part, images=images) for part in parts]
    return sent


def _type_of(part: object) -> object:
    return part.get("type") if isinstance(part, dict) else None


def _names(item: Item) -> set[tuple[str, str]]:
    """The kinds and ids by which an output and its call belong together.

    A local_shell_call and its output can name each other by their own id, where they have no call_id.
    """
    kind = str(item.get("type"))
    is_shell = kind in ("local_shell_call", _SHELL_OUTPUT)
    named = "function_call_output" if is_shell else _OUTPUT_OF.get(kind, kind)
    ids = (item.get("call_id"), item.get("id") if is_shell else None)
    return {(named, id) for id in ids if isinstance(id, str)}


def _pair(items: Sequence[Item]) -> list[Item]:
    calls = {name for item in items if item.get("type") in _OUTPUT_OF for name in _names(item)}
    outputs = {name for item in items if item.get("type") in {*_OUTPUTS, _SHELL_OUTPUT} for name in _names(item)}
    paired: list[Item] = []
    for item in items:
        kind, call_id = item.get("type", ""), item.get("call_id")
        # a search that the server made itself has an output and no call
        is_served = kind == "tool_search_output" and (item.get("execution") == "server" or call_id is None)
        if kind in _OUTPUTS and not is_served and calls.isdisjoint(_names(item)):
            continue
        paired.append(item)
        if kind in _OUTPUT_OF and isinstance(call_id, str) and (_OUTPUT_OF[kind], call_id) not in outputs:
            aborted: Item = {"type": _OUTPUT_OF[kind], "call_id": call_id}
            search = {"status": "completed", "execution": "client", "tools": []}
            paired.append(aborted | (search if kind == "tool_search_call" else {"output": "aborted"}))
    return paired


def _refresh(items: Sequence[Item], fresh: Sequence[Item]) -> list[Item]:
    """Old developer messages of the program go; the fresh ones stand where the first of them stood."""
    is_old = [item.get("role") == "developer" and is_program_message(item) for item in items]
    at = is_old.index(True) if any(is_old) else 0
    behind = [item for item, old in zip(items[at:], is_old[at:], strict=True) if not old]
    return [*items[:at], *map(dict, fresh), *behind]


def _cut(output: Any, truncation: Truncation) -> Any:
    """Texts share the budget in their order; images stay; texts for which nothing is left are counted."""
    if isinstance(output, str):
        return cut_text(output, truncation.budget_bytes, truncation.mode)
    if not isinstance(output, list):
        return output
    left, kept, omitted = truncation.budget_bytes, [], 0
    for part in output:
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            kept.append(part)
            continue
        if left <= 0:
            omitted += 1
            continue
        size = len(text.encode("utf-8", "surrogatepass"))
        kept.append(part if size <= left else {**part, "text": cut_text(text, left, truncation.mode)})
        left -= size
    return [*kept, _text(f"[omitted {omitted} text items ...]")] if omitted else kept


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def shown_part(part: Any, *, images: bool = True) -> Any:
    """A part of a content as it is sent: itself, or a text that says what it was."""
    if _type_of(part) == "input_image":
        shown = _shown_image(part)
        if shown["type"] == "input_image" and not images:
            return _text("image content omitted because you do not support image input")
        return shown
    return _shown_audio(part) if _type_of(part) == "input_audio" else part


def _shown_image(part: dict[str, Any]) -> dict[str, Any]:
    url = part.get("image_url")
    if not isinstance(url, str):
        return part
    if url[:6].lower().startswith(("http:", "https:")):
        return _text("image content omitted because remote image URLs are not supported")
    if url[:5].lower() != "data:":
        return part
    if part.get("detail") == "low":
        why = "detail 'low' is not supported; use 'high', 'original', or 'auto'"
        return _text(f"image content omitted because {why}")
    found = _DATA.fullmatch(url)
    data = None if found is None else _bytes_of(found)
    kind = None if data is None else _image_type(data)
    if found is None or kind is None:
        return _text("image content omitted because it could not be processed")
    begin = f"data:{kind};base64,"
    return part if url.startswith(begin) else {**part, "image_url": begin + found[3]}


def _shown_audio(part: dict[str, Any]) -> dict[str, Any]:
    url = part.get("audio_url")
    found = _DATA.fullmatch(url) if isinstance(url, str) else None
    why = "you do not support audio input"
    if found is None or not found[1] or not _bytes_of(found):
        why = "it could not be processed"
    elif found[1].lower() not in _AUDIO_TYPES:
        why = "its format is not supported; use wav, mp3, m4a, webm, or ogg"
    return _text(f"audio content omitted because {why}")


def _bytes_of(found: re.Match[str]) -> bytes | None:
    """What a data URL holds; None where it is not in base64."""
    if not found[2].lower().endswith(";base64"):
        return None
    try:
        return binascii.a2b_base64(found[3], strict_mode=True) if found[3] else b""
    except ValueError:
        return None


def _image_type(data: bytes) -> str | None:
    """The media type of an image, told by its bytes; None for what is no whole image of a kind that is sent.

    The pieces that it is made of have to be there; what they unpack to is not looked at. What stands behind the picture
    itself may be torn.
    """
    if data.startswith(_PNG):
        return "image/png" if _is_whole_png(data) else None
    if data.startswith(_JPEG):
        return "image/jpeg" if _is_whole_jpeg(data) else None
    if data.startswith(_GIF):
        return "image/gif" if _is_whole_gif(data) else None
    is_webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 8 + int.from_bytes(data[4:8], "little")
    return "image/webp" if is_webp else None


def _is_whole_png(data: bytes) -> bool:
    at, begins, has_header = len(_PNG), b"", False
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IEND":
            break
        end = at + 8 + size
        if zlib.crc32(memoryview(data)[at + 4 : end]).to_bytes(4, "big") != data[end : end + 4]:
            return False
        has_header = has_header or (kind == b"IHDR" and size == 13)
        if kind == b"IDAT" and not begins:
            begins = data[at + 8 : min(end, at + 8 + _LOOK_BYTES)]
        at = end + 4
    try:
        return has_header and bool(zlib.decompressobj().decompress(begins, 1))
    except zlib.error:
        return False


def _is_whole_jpeg(data: bytes) -> bool:
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        if data[at + 1] == 0xFF:  # a filler
            at += 1
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at + 1] == _JPEG_SCAN:
            return end < len(data)
        at = end
    return False


def _is_whole_gif(data: bytes) -> bool:
    at = _behind_colors(data, 10, 13)
    while at < len(data):
        if data[at] == ord(","):
            return _behind_blocks(data, _behind_colors(data, at + 9, at + 10) + 1) <= len(data)
        if data[at] != ord("!"):
            return False
        at = _behind_blocks(data, at + 2)
    return False


def _behind_colors(data: bytes, flags: int, at: int) -> int:
    """Where a GIF goes on behind a table of colours at `at`, if the byte at `flags` says that there is one."""
    told = data[flags] if flags < len(data) else 0
    return at + (3 << (told & 7) + 1 if told & 0x80 else 0)


def _behind_blocks(data: bytes, at: int) -> int:
    """Where a GIF goes on behind a run of blocks, each with its size ahead; beyond its end if it is torn."""
    while at < len(data) and data[at]:
        at += 1 + data[at]
    return at + 1
