"""Rollouts to measure with: lines as Codex 0.117 writes them, in sizes and shapes that real users have.

A rollout is determined by its kind, size and seed, byte for byte, and is never held in memory: turns are made one after
the other, their texts cut out of a `Pool` that is made once. The kinds say where compactions lie:

    near-end    one, the last 0.3 MB of the file behind it
    none        none at all
    many        one every 2 MB

A sealed rollout (`.jsonl.zst`) holds the same lines, in frames of 1 MiB of text that end at line ends, or in one frame.
"""

from __future__ import annotations

import base64
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, get_args

import zstandard

Kind = Literal["near-end", "none", "many"]
Form = Literal["plain", "frames", "one-frame", "sealed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MB: Final = 1_000_000
TAIL_BYTES: Final = 300_000
MANY_EVERY_BYTES: Final = 2 * MB
FRAME_BYTES: Final = 1 << 20
_WRITE_BYTES: Final = 4 * MB
_START: Final = 1_772_000_000  # Unix seconds of the first line

_WORDS: Final = (
    "the a test file of and handler returns value when is called twice with an empty list request parser error should "
    "we then change module import cache lock writer reader buffer offset line record compaction history turn model "
    "context before after never always only first last index query commit branch merge build fails passes patch diff"
).split()
_ROWS: Final = (  # of source, search, data, build
    '    {first} = {last}.{first}(self._{last}, "{number:x}")  # {all}\n',
    "src/{first}.py:{number}:\tdef {first}_{last}(self, {first}: list[str]) -> dict[str, int]:\n",
    '  {{"{first}": {number}, "{last}": ["{first}", {{"path": "C:\\\\{last}"}}]}},\n',
    "tests/{first}/test_{last}.py::test_{first}[{last}-{number}] PASSED\n",
    "{all}\n",
    "\n",
)
_LINE: Final = b'{"timestamp":"%b","type":"%b","payload":%b}\n'
_EVENT: Final = b"event_msg"
_ITEM: Final = b"response_item"
_TEXT: Final = b'{"type":"message","role":"%b","content":[{"type":"%b","text":"%b"}]}'
_LIMITS: Final = (
    b'{"limit_id":"codex","limit_name":null,"primary":{"used_percent":%d.0,"window_minutes":300,"resets_at":1795300000},'
    b'"secondary":null,"credits":null,"plan_type":"pro"}'
)
_USAGE: Final = (
    b'{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d,"reasoning_output_tokens":%d,"total_tokens":%d}'
)
_COUNT: Final = (
    b'{"type":"token_count","info":{"total_token_usage":%b,"last_token_usage":%b,"model_context_window":258400},'
    b'"rate_limits":%b}'
)
_CONTEXT: Final = (
    b'{"turn_id":"%b","cwd":"/home/dev/project","current_date":"2026-02-25","timezone":"Etc/UTC","approval_policy":"never",'
    b'"sandbox_policy":{"type":"danger-full-access"},"model":"gpt-5.4","personality":"pragmatic","collaboration_mode":'
    b'{"mode":"default","settings":{"model":"gpt-5.4","reasoning_effort":"high","developer_instructions":null}},'
    b'"realtime_active":false,"effort":"high","summary":"auto","truncation_policy":{"mode":"tokens","limit":10000}}'
)
_REASONING: Final = (
    b'{"type":"reasoning","summary":[{"type":"summary_text","text":"%b"}],"content":null,"encrypted_content":"%b"}'
)
_CALL: Final = (
    b'{"type":"function_call","name":"exec_command","arguments":"{\\"cmd\\":\\"rg -n %b src\\"}","call_id":"%b"}'
)
_OUTPUT: Final = (
    b'{"type":"function_call_output","call_id":"%b","output":"Chunk ID: %06x\\nWall time: 0.0512 seconds\\n'
    b'Process exited with code 0\\nOriginal token count: 700\\nOutput:\\n%b"}'
)
_ENVIRONMENT: Final = (
    rb"<environment_context>\n  <cwd>/home/dev/project</cwd>\n  <shell>bash</shell>\n</environment_context>"
)
_PERMISSIONS: Final = rb"<permissions instructions>\nFilesystem sandboxing is off.\n</permissions instructions>"


class Pool:
    """Texts to cut from, escaped as JSON already: prose, output of tools, and base64 blobs that do not compress."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._blobs = base64.b64encode(rng.randbytes(6 * MB))
        self._prose = b"".join(self._sentence() for _ in range(12_000))
        self._output = b"".join(self._row() for _ in range(60_000))

    def size(self, low: int, high: int) -> int:
        """Bytes, log-uniform: most texts are short, most bytes lie in long ones."""
        return int(low * math.exp(self._rng.random() * math.log(high / low)))

    def prose(self, size_bytes: int) -> bytes:
        """Sentences of at least `size_bytes`, some of them not ASCII."""
        return self._whole(self._prose, b". ", size_bytes)

    def output(self, size_bytes: int) -> bytes:
        """Lines of a source listing, a build, a search."""
        return self._whole(self._output, b"\\n", size_bytes)

    def blob(self, size_bytes: int) -> bytes:
        """As `encrypted_content`."""
        start = self._rng.randrange(len(self._blobs) - size_bytes)
        return b"gAAAAAB" + self._blobs[start : start + size_bytes]

    def _whole(self, text: bytes, end: bytes, size_bytes: int) -> bytes:
        """A piece of `text` from the end of one sentence or line to that of another, so no escape is cut."""
        start = text.find(end, self._rng.randrange(len(text) // 2)) + len(end)
        return text[start : text.index(end, start + size_bytes) + len(end)]

    def _sentence(self) -> bytes:
        words = self._rng.choices(_WORDS, k=self._rng.randint(6, 20))
        if self._rng.random() < 0.05:
            words.append("\u2014 \u201ccaf\u00e9\u201d")
        return " ".join(words).capitalize().encode() + b". "

    def _row(self) -> bytes:
        number, words = self._rng.randrange(900), self._rng.choices(_WORDS, k=self._rng.randint(2, 9))
        row = self._rng.choice(_ROWS).format(number=number, first=words[0], last=words[-1], all=" ".join(words))
        return json.dumps(row).encode()[1:-1]


class Scribe:
    """Writes a session, turn by turn; every method gives whole lines."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._pool = Pool(self._rng)
        self._seed = seed
        self._ms = 0
        self._second, self._stamp = -1, b""
        self._turns = 0
        self._spent = [0, 0, 0, 0]
        self._context_is_due = True

    def begin_anew(self, seed: int) -> None:
        """From here on, the same texts follow whatever was written before."""
        self._rng.seed(seed)

    def meta(self) -> bytes:
        payload = (
            b'{"id":"%b","timestamp":"2026-02-25T06:13:20.000Z","cwd":"/home/dev/project","originator":"codex_cli_rs",'
            b'"cli_version":"0.117.0","source":"cli","model_provider":"openai","base_instructions":{"text":"%b"},'
            b'"git":{"commit_hash":"8d2f1c40","branch":"main","repository_url":"https://example.org/project.git"}}'
        )
        return self._line(b"session_meta", payload % (self._id(0), self._pool.prose(12_000)))

    def turn(self) -> bytes:
        """A regular turn: a question, one to a dozen model calls with a tool each, an answer."""
        turn_id, lines = self._start()
        if self._context_is_due:
            self._context_is_due = False
            lines.append(self._line(_ITEM, _TEXT % (b"developer", b"input_text", _PERMISSIONS)))
            lines.append(self._line(_ITEM, _TEXT % (b"user", b"input_text", _ENVIRONMENT)))
        question = self._pool.prose(self._pool.size(40, 3_000))
        lines.append(self._line(b"turn_context", _CONTEXT % turn_id))
        lines.append(self._line(_ITEM, _TEXT % (b"user", b"input_text", question)))
        event = b'{"type":"user_message","message":"%b","images":[],"local_images":[],"text_elements":[]}' % question
        lines.append(self._line(_EVENT, event))
        for _ in range(self._pool.size(1, 12)):
            self._call_model(lines)
        answer = self._pool.prose(self._pool.size(100, 3_000))
        self._say(lines, answer)
        lines.append(self._count())
        lines.append(self._end(turn_id, b'"%b"' % answer))
        return b"".join(lines)

    def compaction(self) -> bytes:
        """A turn of its own that replaces the history by about 40 items of 20 to 100 KB together."""
        turn_id, lines = self._start()
        each = self._pool.size(20_000, 100_000) // 40
        items = [_TEXT % (b"user", b"input_text", self._pool.prose(each - 160)) for _ in range(39)]
        items.append(b'{"type":"compaction","encrypted_content":"%b"}' % self._pool.blob(each))
        payload = b'{"message":"","replacement_history":[%b]}' % b",".join(items)
        lines.append(self._line(b"compacted", payload))
        lines.append(self._count())
        lines.append(self._line(_EVENT, b'{"type":"context_compacted"}'))
        lines.append(self._end(turn_id, b"null"))
        self._context_is_due = True
        return b"".join(lines)

    def _start(self) -> tuple[bytes, list[bytes]]:
        self._turns += 1
        turn_id = self._id(self._turns)
        event = (
            b'{"type":"task_started","turn_id":"%b","model_context_window":258400,"collaboration_mode_kind":"default"}'
        )
        return turn_id, [self._line(_EVENT, event % turn_id)]

    def _end(self, turn_id: bytes, message: bytes) -> bytes:
        return self._line(
            _EVENT, b'{"type":"task_complete","turn_id":"%b","last_agent_message":%b}' % (turn_id, message)
        )

    def _call_model(self, lines: list[bytes]) -> None:
        """Reasoning, now and then a remark, a call of a tool, its output, the tokens."""
        pool = self._pool
        thought = pool.prose(pool.size(30, 300))
        lines.append(self._line(_EVENT, b'{"type":"agent_reasoning","text":"%b"}' % thought))
        lines.append(self._line(_ITEM, _REASONING % (thought, pool.blob(pool.size(500, 6_000)))))
        if self._rng.random() < 0.4:
            self._say(lines, pool.prose(pool.size(60, 600)))
        call_id = b"call_%012x" % self._rng.getrandbits(48)
        lines.append(self._line(_ITEM, _CALL % (thought.split(b" ", 1)[0], call_id)))
        lines.append(self._count())
        text = pool.output(pool.size(200, 10_000))
        lines.append(self._line(_ITEM, _OUTPUT % (call_id, self._rng.getrandbits(24), text)))

    def _say(self, lines: list[bytes], text: bytes) -> None:
        event = b'{"type":"agent_message","message":"%b","phase":null,"memory_citation":null}' % text
        lines.append(self._line(_EVENT, event))
        lines.append(self._line(_ITEM, _TEXT % (b"assistant", b"output_text", text)))

    def _count(self) -> bytes:
        read, wrote = self._rng.randrange(20_000, 200_000), self._rng.randrange(50, 3_000)
        asked = (read, read // 2, wrote, wrote // 2)
        self._spent = [before + now for before, now in zip(self._spent, asked, strict=True)]
        total = _USAGE % (*self._spent, self._spent[0] + self._spent[2])
        last = _USAGE % (*asked, read + wrote)
        return self._line(_EVENT, _COUNT % (total, last, _LIMITS % (self._turns % 100)))

    def _line(self, kind: bytes, payload: bytes) -> bytes:
        self._ms += 37
        second, ms = divmod(self._ms, 1000)
        if second != self._second:
            days, rest = divmod(second, 86_400)
            clock = (1 + days % 28, rest // 3600, rest // 60 % 60, rest % 60)
            self._second, self._stamp = second, b"2026-03-%02dT%02d:%02d:%02d" % clock
        return _LINE % (b"%b.%03dZ" % (self._stamp, ms), kind, payload)

    def _id(self, number: int) -> bytes:
        return b"%08x-%04x-7%03x-8000-%012x" % (_START, self._seed & 0xFFFF, number & 0xFFF, number)


def generate_turns(kind: Kind, size_bytes: int, seed: int = 1) -> Iterator[bytes]:
    """The lines of a rollout of about `size_bytes`, some turns at a time, never more than 0.4 MB at once.

    What lies behind the compaction of a `near-end` rollout is the same for every size, but for ids, times and tokens:
    so the times of different sizes compare.
    """
    scribe = Scribe(seed)
    chunk = scribe.meta()
    written, end = len(chunk), size_bytes
    due = {"near-end": max(size_bytes - TAIL_BYTES, written), "none": math.inf, "many": MANY_EVERY_BYTES}[kind]
    yield chunk
    while written < end:
        if written >= due:
            if kind == "near-end":
                scribe.begin_anew(seed)
            chunk = scribe.compaction()
            due = written + MANY_EVERY_BYTES if kind == "many" else math.inf
            end = written + len(chunk) + TAIL_BYTES if kind == "near-end" else end
        else:
            chunk = scribe.turn()
        written += len(chunk)
        yield chunk


def make(path: Path, kind: Kind, size_bytes: int, seed: int = 1) -> None:
    """Write a plain rollout to `path`."""
    with path.open("wb", buffering=_WRITE_BYTES) as file:
        for chunk in generate_turns(kind, size_bytes, seed):
            file.write(chunk)


def seal(plain: Path, path: Path, form: Form = "frames") -> None:
    """Write the lines of `plain` to `path`, as Zstandard frames that end at line ends or as one frame.

    One frame is what other programs write: with its content size, without a checksum.
    """
    with plain.open("rb") as source, path.open("wb") as target:
        if form == "one-frame":
            compressor = zstandard.ZstdCompressor(level=3)
            compressor.copy_stream(source, target, size=plain.stat().st_size)
        else:
            compressor = zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=True)
            for text in cut_frames(source):
                target.write(compressor.compress(text))


def cut_frames(source: BinaryIO) -> Iterator[bytes]:
    """The text of `source` in pieces of at most 1 MiB that end at line ends; longer only for a longer line."""
    rest = b""
    while chunk := source.read(FRAME_BYTES):
        rest += chunk
        while len(rest) >= FRAME_BYTES:
            end = rest.rfind(b"\n", 0, FRAME_BYTES) + 1 or rest.find(b"\n") + 1
            if not end:
                break
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest
