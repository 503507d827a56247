"""Hypothesis strategies for texts, items, turns, whole sessions, the files of these, and what damage makes of them.

Each is a function that gives a strategy, so that what is drawn can be narrowed: `said` is everywhere a strategy for the
texts in it (by default `texts()`), `max_size` how many of its parts there are at the most. What is drawn shrinks well.
Needs Hypothesis: `pip install 'rollout[testing]'`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("needs Hypothesis; run pip install 'rollout[testing]'", name=error.name) from error

from rollout import Durability
from rollout.testing.disk import SimulatedDisk
from rollout.testing.sessions import HOME, Compact, Item, RollBack, Step, TakeTurn, new_store, record

_AWKWARD = ("fix it", "", 'é\n\u2028{"timestamp":"', "a\x00b", "\x1b[2J", "<b>", "\U0001f44d", "x" * 300)


def texts() -> st.SearchStrategy[str]:
    """What people, models and tools say: plain words, nothing, texts that have broken readers before, any Unicode."""
    return st.one_of(st.sampled_from(_AWKWARD), st.text(max_size=6))


def user_messages(said: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Item]:
    """A message of a person."""
    return (said or texts()).map(lambda text: _message("user", "input_text", text))


def answers(said: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Item]:
    """A message of the model."""
    return (said or texts()).map(lambda text: _message("assistant", "output_text", text))


def tool_calls(said: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[tuple[Item, ...]]:
    """A call of a tool and its output, of each shape that there is for one."""
    ids = st.integers(1, 10**6).map(lambda n: f"call_{n}")
    return st.one_of(*(st.builds(make, ids, said or texts(), said or texts()) for make in (_function, _custom, _shell)))


def other_items(said: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Item]:
    """Items that are no message and belong to no call: reasoning, a search of the provider, a type not known yet."""
    text = said or texts()
    return st.one_of(
        text.map(lambda s: {"type": "reasoning", "summary": [{"type": "summary_text", "text": s}], "content": None}),
        text.map(
            lambda s: {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": s}}
        ),
        st.integers().map(lambda n: {"type": "not_known_yet", "n": n, "deep": [{"x": None}]}),
    )


def turns(said: st.SearchStrategy[str] | None = None, *, max_size: int = 4) -> st.SearchStrategy[Step]:
    """A turn: a message of a person, then answers, calls with their outputs, other items."""
    one = st.one_of(answers(said).map(_alone), tool_calls(said), other_items(said).map(_alone))
    return st.builds(
        lambda first, more: TakeTurn((first, *(item for items in more for item in items))),
        user_messages(said),
        st.lists(one, max_size=max_size),
    )


def steps(said: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Step]:
    """One step of a session: mostly a turn, or a rollback (of more turns than there are, too), or a compaction."""
    rollbacks = st.integers(1, 3).map(RollBack)
    kept = st.lists(st.one_of(user_messages(said), answers(said)), max_size=3)
    return st.one_of(turns(said), turns(said), turns(said), rollbacks, kept.map(lambda items: Compact(tuple(items))))


def sessions(said: st.SearchStrategy[str] | None = None, *, max_size: int = 8) -> st.SearchStrategy[list[Step]]:
    """What a session goes through from its beginning; `Conversation` says what comes of it."""
    return st.lists(steps(said), max_size=max_size)


def rollouts(taken: st.SearchStrategy[list[Step]] | None = None) -> st.SearchStrategy[bytes]:
    """The bytes of a rollout, as this library writes it; `taken` are the steps in it, by default `sessions()`."""
    return (taken or sessions()).map(file_of)


def file_of(taken: Iterable[Step]) -> bytes:
    """The bytes of a rollout in which these steps are recorded; the same ones for the same steps."""
    disk = SimulatedDisk({HOME: None})
    with new_store(disk).create(cwd="/work", model_provider="test", durability=Durability.NONE) as log:
        record(log, *taken)
    return disk.tree()[str(log.path)] or b""


_BLANKS = (b"\n", b"\r\n", b" \t\n", b"\0\0\0\n", b"\xef\xbb\xbf\n", b"\0 \0\r\n")
_GARBAGE = (
    b"%% garbage\n",
    b"\xff\xfe\n",
    b'["a","b"]\n',
    b"7\n",
    b"{}\n",
    b'{"type":7}\n',
    b'{"a\n',
)
DAMAGES: dict[str, Callable[[bytes, int], bytes]] = {
    "lose the end and the newline": lambda line, n: line[: n % len(line)],  # the next record is glued behind
    "lose the newline": lambda line, n: line[:-1] + b" " * (n % 2),
    "lose the end": lambda line, n: line[: n % len(line)] + b"\n",
    "lose the beginning": lambda line, n: line[n % len(line) :],
    "lose it": lambda line, n: b"",
    "write it twice": lambda line, n: line + line,
    "NUL ahead": lambda line, n: b"\0" * (1 + n) + line,
    "NUL inside": lambda line, n: line[: n % len(line)] + b"\0" * (1 + n % 3) + line[n % len(line) :],
    "NUL behind": lambda line, n: line[:-1] + b"\0" * (1 + n) + b"\n",
    "blank ahead": lambda line, n: _BLANKS[n % len(_BLANKS)] + line,
    "garbage ahead": lambda line, n: _GARBAGE[n % len(_GARBAGE)] + line,
    "carriage return": lambda line, n: line[:-1] + b"\r\n",
    "byte-order mark": lambda line, n: b"\xef\xbb\xbf" + line,
    "bad byte": lambda line, n: line[: n % len(line)] + b"\xff" + line[n % len(line) + 1 :],
}
"""What becomes of a line, its newline included; the number says how."""


def damaged(
    files: st.SearchStrategy[bytes] | None = None, *, max_damages: int = 5, max_torn_bytes: int = 150
) -> st.SearchStrategy[bytes]:
    """Files as crashes, full disks, editors and copies leave them.

    Args:
        files: Whole ones, by default `rollouts()`.
        max_damages: So many of `DAMAGES` at the most befall lines; a line may have several.
        max_torn_bytes: So many bytes at the most are missing at the end.
    """
    return st.builds(
        damage,
        files or rollouts(),
        st.lists(
            st.tuples(st.sampled_from(list(DAMAGES)), st.integers(0, 60), st.integers(0, 200)), max_size=max_damages
        ),
        torn_bytes=st.integers(0, max_torn_bytes),
    )


def damage(file: bytes, damages: Iterable[tuple[str, int, int]], *, torn_bytes: int = 0) -> bytes:
    """A file with damages, each a name in `DAMAGES`, the number of a line (modulo how many there are) and how."""
    lines = [line + b"\n" for line in file.removesuffix(b"\n").split(b"\n")]
    for name, at, n in damages:
        lines[at % len(lines)] = DAMAGES[name](lines[at % len(lines)], n) or b"\n"
    data = b"".join(lines)
    return data[: max(len(data) - torn_bytes, 0)]


def _message(role: str, part: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": part, "text": text}]}


def _alone(item: Item) -> tuple[Item, ...]:
    return (item,)


def _function(call_id: str, asked: str, output: str) -> tuple[Item, ...]:
    call = {"type": "function_call", "name": "f", "arguments": asked, "call_id": call_id}
    return call, {"type": "function_call_output", "call_id": call_id, "output": output}


def _custom(call_id: str, asked: str, output: str) -> tuple[Item, ...]:
    call = {"type": "custom_tool_call", "name": "f", "input": asked, "call_id": call_id, "status": "completed"}
    return call, {"type": "custom_tool_call_output", "call_id": call_id, "output": output}


def _shell(call_id: str, asked: str, output: str) -> tuple[Item, ...]:
    action = {"type": "exec", "command": ["sh", "-c", asked]}
    call = {"type": "local_shell_call", "call_id": call_id, "status": "completed", "action": action}
    return call, {"type": "function_call_output", "call_id": call_id, "output": output}
