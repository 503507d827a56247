"""Images and audio of a message or an output, as a model can be sent them (S6), in the words of Codex 0.169.

An image stays if it is there as bytes that begin and end as a PNG, a JPEG, a GIF or a WebP does, or if only the model's
provider can tell what it is (a file's id, another scheme). Everything else becomes a short text.
"""

from __future__ import annotations

import binascii
import re
import struct
import zlib
from typing import Any

REMOTE_IMAGE = "image content omitted because remote image URLs are not supported"
BROKEN_IMAGE = "image content omitted because it could not be processed"
LOW_DETAIL = "image content omitted because detail 'low' is not supported; use 'high', 'original', or 'auto'"
NO_AUDIO = "audio content omitted because you do not support audio input"
BROKEN_AUDIO = "audio content omitted because it could not be processed"
FOREIGN_AUDIO = "audio content omitted because its format is not supported; use wav, mp3, m4a, webm, or ogg"

_DATA = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),(.*)", re.IGNORECASE | re.DOTALL)
_AUDIO_TYPES = frozenset(f"audio/{name}" for name in "wav x-wav wave vnd.wave mpeg mp3 mp4 m4a x-m4a webm ogg".split())
_PNG = b"\x89PNG\r\n\x1a\n"
_LOOK_BYTES = 4096
_JPEG_SCAN = 0xDA
_JPEG, _GIF = b"\xff\xd8\xff", (b"GIF87a", b"GIF89a")


def shown_part(part: Any) -> Any:
    """A part of a content as it is sent: itself, or a text that says what it was."""
    if not isinstance(part, dict):
        return part
    if part.get("type") == "input_image":
        return _shown_image(part)
    return _text(_audio(part.get("audio_url"))) if part.get("type") == "input_audio" else part


def _shown_image(part: dict[str, Any]) -> dict[str, Any]:
    url = part.get("image_url")
    if not isinstance(url, str):
        return part
    if url[:6].lower().startswith(("http:", "https:")):
        return _text(REMOTE_IMAGE)
    if url[:5].lower() != "data:":
        return part
    if part.get("detail") == "low":
        return _text(LOW_DETAIL)
    found = _DATA.fullmatch(url)
    data = None if found is None else _bytes_of(found)
    kind = None if data is None else image_type(data)
    if found is None or kind is None:
        return _text(BROKEN_IMAGE)
    begin = f"data:{kind};base64,"
    return part if url.startswith(begin) else {**part, "image_url": begin + found[3]}


def _audio(url: object) -> str:
    found = _DATA.fullmatch(url) if isinstance(url, str) else None
    if found is None or not found[1] or not _bytes_of(found):
        return BROKEN_AUDIO
    return NO_AUDIO if found[1].lower() in _AUDIO_TYPES else FOREIGN_AUDIO


def _bytes_of(found: re.Match[str]) -> bytes | None:
    """What a data URL holds; None where it is not in base64."""
    if not found[2].lower().endswith(";base64"):
        return None
    try:
        return binascii.a2b_base64(found[3], strict_mode=True) if found[3] else b""
    except ValueError:
        return None


def image_type(data: bytes) -> str | None:
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


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}
