"""One pass over the text of a rollout that leaves out exact copies, line by line.

*Doubled records*: a line that repeats the one right before it, byte for byte but for the time at its front, if its kind
says the same however often it is said: a compaction with a replacement_history, a full world_state, a turn_context, a
token_count, a token_usage_record. Nothing lies between the two, so no rollback can take back one and leave the other;
the first stays, which says since when it is so. A compaction of the old kind is not left out (a second one summarizes
the first), nor a world_state patch, items or other events (two of a kind can be meant), nor a line with an ordinal,
which would leave a gap.

*Pictures told twice*: a data: URL in the `images` of a user_message event that stands, the same to the byte, in a user
item further up in the same turn. The item keeps it, and it is what the model sees. Codex draws its list of turns from
the event, so there the picture is missed: this is done only when asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Raw

from rollout.core import codec, lines
from rollout.core import records as r
from rollout.encoding import encode
from rollout.limits import Limits
from rollout.storage.ending import STARTED, event_kind, ordinal_of

_TIME = re.compile(rb'\{"timestamp":"[^"\\]*"')
_DATA_SIGN = b";base64,"
_DATA_URL = b'"data:'
_raw_keys = msgspec.json.Decoder(dict[str, Raw])
_raws = msgspec.json.Decoder(list[Raw])


class _Part(msgspec.Struct, frozen=True):
    image_url: Raw = Raw(b"null")


class _Message(msgspec.Struct, frozen=True):
    content: list[_Part] = []


class Thinner:
    """Looks at lines one behind the other, and says what is left of each; counts what goes."""

    def __init__(self, limits: Limits, *, images: bool) -> None:
        self.doubled = self.images = self.saved_bytes = 0
        self._depth = limits.depth
        self._takes_images = images
        self._before = b""
        self._seen: set[bytes] = set()  # pictures of the turn's user items, by hash

    def forget(self) -> None:
        """Something that is no line stands here."""
        self._before = b""

    def thin(self, line: bytes) -> bytes | None:
        """The line, itself if it stays as it is; None if it is left out."""
        before, self._before = self._before, line
        if same_but_for_time(line, before) and _is_idempotent(line, self._depth):
            self.doubled += 1
            self.saved_bytes += len(line) + 1
            return None
        found = self._without_images(line)
        self.saved_bytes += len(line) - len(found)
        return found

    def _without_images(self, line: bytes) -> bytes:
        """The line itself, if it is to stay as it is."""
        if not self._takes_images or (_DATA_SIGN not in line and not self._seen):
            return line
        envelope = codec.decode_plain(line, self._depth)
        if envelope is None:
            return line
        kind = event_kind(envelope)
        if kind in STARTED:
            self._seen.clear()
        elif kind == "user_message" and self._seen and _DATA_SIGN in line:
            return self._drop_images(line)
        elif envelope.type == "response_item" and _DATA_SIGN in line and _is_of_user(envelope):
            self._seen.update(map(_hash, _pictures(line)))
        return line

    def _drop_images(self, line: bytes) -> bytes:
        try:
            keys = _raw_keys.decode(line)
            payload = _raw_keys.decode(keys["payload"])
            images = _raws.decode(payload["images"])
        except (msgspec.DecodeError, KeyError):
            return line
        if encode({**keys, "payload": payload}) != line or encode(images) != bytes(payload["images"]):
            return line  # spelled in another way: it would change elsewhere too
        left = [image for image in images if not (_is_picture(image) and _hash(bytes(image)) in self._seen)]
        if len(left) == len(images):
            return line
        self.images += len(images) - len(left)
        payload["images"] = Raw(encode(left))
        return encode({**keys, "payload": Raw(encode(payload))})


class Thinning(Thinner):
    """The text of `source[start:end]` without its copies. Iterate once; then the counts are known.

    `start` is the beginning of a line. `first` is the offset of the first change, None if there is none.
    """

    def __init__(self, source: lines.Source, start: int, end: int, limits: Limits, *, images: bool) -> None:
        super().__init__(limits, images=images)
        self.first: int | None = None
        self._source, self._start, self._end, self._limits = source, start, end, limits

    def __iter__(self) -> Iterator[bytes]:
        for block in lines.forward(self._source, self._start, self._end, self._limits):
            if not isinstance(block, lines.Batch):
                self.forget()
                for at in range(block.offset, block.offset + block.n, self._limits.chunk_bytes):
                    yield self._source.read_at(at, min(self._limits.chunk_bytes, block.offset + block.n - at))
                continue
            offset = block.offset
            for line in block.lines[:-1]:
                found = self.thin(line)
                if found is not line and self.first is None:
                    self.first = offset
                if found is not None:
                    yield found + b"\n"
                offset += len(line) + 1
            if block.lines[-1]:
                yield block.lines[-1]


def same_but_for_time(one: bytes, other: bytes) -> bool:
    """Whether two lines have the same bytes behind their times."""
    ours, theirs = _TIME.match(one), _TIME.match(other)
    if ours is None or theirs is None or len(one) - ours.end() != len(other) - theirs.end():
        return False
    return memoryview(one)[ours.end() :] == memoryview(other)[theirs.end() :]


def _is_idempotent(line: bytes, depth: int) -> bool:
    envelope = codec.decode_plain(line, depth)
    if envelope is None or envelope.payload is UNSET or ordinal_of(line) is not None:
        return False
    try:
        match envelope.type:
            case "compacted":
                found = msgspec.json.decode(codec.payload_of(line), type=r.Compacted)
                return found.replacement_history is not None
            case "world_state":
                return msgspec.json.decode(codec.payload_of(line), type=r.WorldState).full
            case "turn_context" | "token_usage_record":
                return True
            case _:
                return event_kind(envelope) == "token_count"
    except (msgspec.DecodeError, RecursionError):
        return False


def _is_of_user(envelope: r.Envelope) -> bool:
    return isinstance(envelope.payload, r.Head) and envelope.payload.role == "user"


def _pictures(line: bytes) -> Iterator[bytes]:
    try:
        parts = msgspec.json.decode(codec.payload_of(line), type=_Message).content
    except msgspec.ValidationError:
        return
    yield from (bytes(part.image_url) for part in parts if _is_picture(part.image_url))


def _is_picture(value: Raw) -> bool:
    return bytes(memoryview(value)[: len(_DATA_URL)]) == _DATA_URL


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
