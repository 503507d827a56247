"""Random logs: sessions as programs write them, any record in any place, every kind of damage, any bytes.

A log is drawn as a list of steps, plain tuples of a name and small arguments, so that it shrinks and prints well.
`Script` plays the steps and numbers the texts: no two items are alike unless they are meant to be.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from rollout.testing import strategies as public
from tests import builders as b
from tests.strategy_items import (
    BAD_VALUES,
    FRAGMENTS,
    INSTRUCTIONS,
    INVISIBLE,
    NEARLY_FRAGMENTS,
    NEW_RECORDS,
    ODD_ITEMS,
    SUMMARY,
    WHOLE_ITEMS,
    with_key,
)

Step = tuple[Any, ...]

NO_ITEMS: list[Any] = [None, 7, "text", [], {}, {"type": 7}, {"role": "user"}, {"type": "message", "role": 7}]
BAD_COUNTS = (-1, True, 1.0, "1", None)
MALFORMED: dict[str, list[Any]] = {
    "event_msg": [
        {"type": 7},
        {},
        None,
        {"type": "thread_rolled_back"},
        {"type": "items_removed"},
        *({"type": "thread_rolled_back", "num_turns": count} for count in BAD_COUNTS),
        *({"type": "items_removed", "num_items": count} for count in BAD_COUNTS),
    ],
    "turn_context": [{"turn_id": "t1"}, {"model": None}, "m"],
    "compacted": [{}, {"message": None}, [], {"replacement_history": {}}, {"message": "S", "replacement_history": "x"}],
    "world_state": [{"full": True}, {"full": 1, "state": {}}, {"full": False, "state": 7}],
    "response_item": [{}, {"type": 7, "role": "user"}, {"type": "message", "role": 7}, "text"],
    "session_meta": [7],
    "inter_agent_communication": ["do", {"author": "a", "recipient": "b", "trigger_turn": True}, {"content": "do"}],
}
PASSED_OVER = (
    b.event("agent_message", message="a"),
    b.event("item_completed", item={"type": "Plan"}),
    b.event("not_known_yet", turn_id="t1"),
    b.line("not_known_yet", {"a": 1}),
    b.line("not_known_yet", None, ordinal=3),
    b.line("token_usage_record", None),
    *(b.line(kind, payload) for kind in NEW_RECORDS for payload in (None, {"type": "message", "role": "user"})),
    b.event("token_count", info=None),
    b.bare_state(),
)
STATES: tuple[dict[str, Any], ...] = (
    {},
    {"a": 1},
    {"a": {"b": 2, "c": None}},
    {"a": {"b": None}},
    {"a": None, "d": [1, None]},
)


class Script:
    """Plays steps into lines. `turn_id` is the newest turn's, `lines` are without newlines."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.turn_id: str | None = None
        self._numbers = itertools.count(1)
        self._turns = itertools.count(1)

    def text(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def put(self, *lines: bytes) -> None:
        self.lines += lines

    def meta(self) -> None:
        self.put(b.session_meta(base_instructions={"text": self.text("base")}))

    def start(self, id: str) -> None:
        """With a new id, the id of the turn before again, or none."""
        if id != "again":
            self.turn_id = f"t{next(self._turns)}" if id == "new" else None
        self.put(b.started(self.turn_id))

    def complete(self, id: str) -> None:
        self.put(b.completed(self._named(id)))

    def abort(self, id: str) -> None:
        self.put(b.aborted(self._named(id)))

    def context(self, id: str, model: int) -> None:
        self.put(b.context(self._named(id), f"m{model}", note=self.text("n")))

    def say(self, announce: str) -> None:
        """A user message; its event behind it, ahead of it, alone, or not at all."""
        text = self.text("q")
        if announce in ("ahead", "alone"):
            self.put(b.user_message(text))
        if announce != "alone":
            self.put(b.user(text))
        if announce == "behind":
            self.put(b.user_message(text))

    def agent(self, how: str) -> None:
        text = self.text("do")
        self.put(b.inter_agent(text) if how == "record" else b.agent_message(text))

    def answer(self) -> None:
        self.put(b.assistant(self.text("a")))

    def tool(self, answered: bool) -> None:
        name = self.text("c")
        self.put(b.call(name), *([b.output(name)] if answered else []))

    def fragment(self, role: str, opening: str, closing: str) -> None:
        message = b.text_item(role, "first part", opening + self.text("f") + closing)
        self.put(b.line("response_item", message))

    def instruction(self, payload: object) -> None:
        self.put(b.line("inter_agent_communication", payload))

    def item(self, value: object, bare: bool) -> None:
        self.put(b.bare_item(value) if bare else b.line("response_item", value))

    def compact(self, items: list[object]) -> None:
        """A replacement history: text stands for a numbered message of that role, other values for themselves."""
        self.put(b.compacted([self._item(value) for value in items], usage_of=self.text("n")))

    def compact_with_totals(self, key: str) -> None:
        keys: dict[str, Any] = {key: {"thread_token_usage": {"total_tokens": next(self._numbers)}}}
        self.put(b.compacted([self._item("user")], **keys))

    def compact_old(self, message: str, null: bool) -> None:
        more: dict[str, object] = {"replacement_history": None} if null else {}
        self.put(b.legacy_compacted(message, **more))

    def rollback(self, turns: int) -> None:
        self.put(b.rolled_back(turns))

    def remove(self, items: int) -> None:
        self.put(b.items_removed(items))

    def world(self, full: bool, state: dict[str, Any]) -> None:
        self.put(b.world_state({"n": next(self._numbers), **state} if full else state, full=full))

    def tokens(self, how: str) -> None:
        total = next(self._numbers)
        self.put(b.token_count(total) if how == "event" else b.usage_record(total))

    def malformed(self, kind: str, payload: object) -> None:
        self.put(b.line(kind, payload))

    def _named(self, id: str) -> str | None:
        return {"own": self.turn_id, "none": None, "other": "another"}[id]

    def _item(self, value: object) -> object:
        return b.text_item(str(value), self.text("r")) if value in ("user", "assistant") else value


def play(steps: list[Step]) -> list[bytes]:
    script = Script()
    for name, *arguments in steps:
        getattr(script, name)(*arguments)
    return script.lines


def step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), *arguments)


def pick(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def flat(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Step]]:
    """Steps and (lists of) lists of steps, one behind the other."""
    return st.tuples(*parts).map(lambda drawn: list(_steps(list(drawn))))


def _steps(drawn: Step | list[Any]) -> Iterator[Step]:
    if isinstance(drawn, tuple):
        yield drawn
    else:
        for part in drawn:
            yield from _steps(part)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=1)


ids = pick("own", "own", "none", "other")
answers = step("answer")
saying = step("say", pick("behind", "none", "ahead"))
announcements = step("say", st.just("alone"))
fragments = pick(*(("fragment", *parts) for parts in FRAGMENTS))
nearly_fragments = pick(*(("fragment", *parts) for parts in NEARLY_FRAGMENTS))
contexts = step("context", ids, pick(1, 2, 3))
worlds = step("world", st.booleans(), pick(*STATES))
tokens = step("tokens", pick("event", "record"))
bent_items = st.builds(with_key, pick(*WHOLE_ITEMS), st.integers(0, 9), pick(*BAD_VALUES))
bent_instructions = st.builds(with_key, pick(*INSTRUCTIONS), st.integers(0, 9), pick(*BAD_VALUES))
known_items = st.one_of(pick(*WHOLE_ITEMS), bent_items)
new_items = st.one_of(
    pick("user", "assistant", b.user_item("<skill>r</skill>"), *ODD_ITEMS, *INVISIBLE, *NO_ITEMS), known_items
)
compactions = st.one_of(
    step("compact", st.lists(pick("user", "assistant"), max_size=3)),
    step("compact", st.lists(new_items, max_size=4)),
    step("compact_with_totals", pick("latest_token_usage_record")),
    step("compact_old", pick("S", "", SUMMARY), st.booleans()),
)
rollbacks = step("rollback", st.one_of(pick(1, 2, 3), pick(0, 4, 5, 2**40)))
removals = step("remove", pick(1, 2, 3, 0, 2**40))
agents = st.one_of(step("agent", pick("record", "item")), step("instruction", pick(*INSTRUCTIONS)))
hidden = step("item", pick(*INVISIBLE), st.just(False))
items = st.one_of(
    *(
        step("item", pick(*ODD_ITEMS), st.booleans()),
        step("item", known_items, st.booleans()),
        hidden,
        nearly_fragments,
    ),
    step("instruction", bent_instructions),
)
passed = step("put", pick(*PASSED_OVER))
malformed = pick(*(("malformed", kind, payload) for kind, payloads in MALFORMED.items() for payload in payloads))

# A session: what the programs write, in their order, with all that can go wrong in it but bad bytes.

openings = st.lists(st.one_of(contexts, contexts, fragments, worlds), max_size=3)
doings = st.lists(
    st.one_of(
        *(answers, saying, step("tool", st.booleans()), fragments, contexts, flat(compactions, maybe(contexts))),
        *(rollbacks, tokens, st.one_of(announcements, agents, items, removals, worlds, passed)),
    ),
    max_size=5,
)
closing = st.one_of(step("complete", ids), step("complete", st.just("own")), step("abort", ids))
endings = maybe(closing)
starts = step("start", pick("new", "new", "new", "again", "none"))
regular_turns = flat(starts, openings, st.one_of(saying, saying, announcements, agents), doings, endings)
own_contexts = step("context", st.just("own"), pick(1, 2, 3))
compacting_turns = flat(starts, own_contexts, saying, compactions, own_contexts, doings, endings)
turns_without_a_message = flat(starts, openings, maybe(compactions), st.lists(answers, max_size=1), endings)
implicit_doings = st.lists(st.one_of(answers, compactions, tokens, step("abort", ids)), max_size=2)
implicit_turns = flat(openings, st.one_of(saying, agents), implicit_doings)
# An interrupted turn leaves a message for the model; taking the next turn back takes it too.
taken_back = flat(starts, saying, fragments, closing, maybe(fragments), starts, openings, saying, rollbacks)
betweens = st.lists(
    st.one_of(rollbacks, rollbacks, removals, compactions, fragments, answers, tokens, passed, contexts, announcements),
    min_size=1,
    max_size=2,
)
heads: st.SearchStrategy[list[Step]] = st.one_of(
    st.just([("meta",)]), st.just([]), st.just([("meta",), ("meta",)]), flat(step("meta"), fragments, answers)
)
episodes = st.one_of(
    *(regular_turns, regular_turns, betweens, implicit_turns, compacting_turns, turns_without_a_message, taken_back)
)


@st.composite  # which has a short repr: that of what it draws from is too long for hypothesis to print
def well_formed_lines(draw: st.DrawFn, max_episodes: int = 8) -> list[bytes]:
    return play(draw(flat(heads, st.lists(episodes, max_size=max_episodes))))


def well_formed_logs(max_episodes: int = 8) -> st.SearchStrategy[bytes]:
    return well_formed_lines(max_episodes).map(lambda lines: b.log(*lines))


# Any record in any place.

turn_steps = st.one_of(starts, step("complete", ids), step("abort", ids), saying, announcements, rollbacks, contexts)
item_steps = st.one_of(answers, fragments, removals, agents, items, step("tool", st.booleans()), compactions)
any_steps = st.one_of(turn_steps, item_steps, worlds, tokens, passed, malformed, step("meta"))


def any_lines(max_size: int = 25) -> st.SearchStrategy[list[bytes]]:
    return st.lists(any_steps, max_size=max_size).map(play)


def any_logs(max_size: int = 25) -> st.SearchStrategy[bytes]:
    return any_lines(max_size).map(lambda lines: b.log(*lines))


# Damage: what becomes of a line, ended; `n` says how.

BAD_LINES = (
    b"%% garbage\n",
    b"\xff\xfe\n",
    b'{"timestamp":"t","type":"event_msg"}\n',
    b'{"timestamp":"t","type":"event_msg","payload":{"type":"x","text":"\\ud800"}}\n',
    b'{"timestamp":"t","type":"event_msg","payload":{"type":"x","n":NaN}}\n',
    b'{"timestamp":"t","type":"event_msg","payload":{"type":"x","text":"\x01"}}\n',
    b'{"type":7,"payload":{}}\n',
    b'["type","payload"]\n',
    b"7\n",
    b"{}\n",
    b'{"type":"event_msg"\n',
    b'{"timestamp":"t","type":"event_msg","payload":{"type":"task_started"}} x\n',
    b.dump({"type": "x", "payload": json.loads("[" * 127 + "]" * 127)}) + b"\n",  # depth 128: still a record
    b.dump({"type": "x", "payload": json.loads("[" * 128 + "]" * 128)}) + b"\n",
)
DAMAGES: dict[str, Callable[[bytes, int], bytes]] = {
    **public.DAMAGES,
    "garbage ahead": lambda line, n: BAD_LINES[n % len(BAD_LINES)] + line,
}


def damaged(lines: list[bytes], damages: list[tuple[str, int, int]], everywhere: str, torn_bytes: int) -> bytes:
    """Break single lines, or give every line the same small oddity; then lose the end of the file."""
    ended = [line + b"\n" for line in lines]
    for name, at, n in damages:
        if ended:
            ended[at % len(ended)] = DAMAGES[name](ended[at % len(ended)], n) or b"\n"
    if everywhere:
        ended = [DAMAGES[everywhere](line, 0) for line in ended]
    data = b"".join(ended)
    return data[: max(len(data) - torn_bytes, 0)]


def damaged_logs(max_size: int = 20) -> st.SearchStrategy[bytes]:
    return st.builds(
        damaged,
        st.one_of(any_lines(max_size), well_formed_lines(5)),
        st.lists(st.tuples(pick(*DAMAGES), st.integers(0, 60), st.integers(0, 200)), min_size=1, max_size=5),
        pick("", "", "", "carriage return", "NUL ahead", "byte-order mark", "lose the newline"),
        st.one_of(st.just(0), st.integers(1, 150)),
    )


# Any bytes: noise, and noise made of the bytes that mean something here.

CRUMBS = (
    *b'\n \0 \xef\xbb\xbf \r { } [ ] " \\ , \\ud800 null 1e999 \xed\xa0\x80 \xff \x1b[2J (\xb5/\xfd'.split(),
    *b'{"timestamp":" "type": "payload": "event_msg" "response_item" "compacted" "session_meta"'.split(),
    *(b"9" * 5000, b"{" * 300, b"[" * 3000, b'{"type":"x","payload":' * 200),
    *(line + b"\n" for line in (b.rolled_back(2**70), b.user("q"), b.compacted([]), b.started(), b.legacy_compacted())),
    b"\n",
    b"\r",
)
hostile_bytes = st.one_of(st.binary(max_size=300), st.lists(pick(*CRUMBS), max_size=25).map(b"".join))


# Old compactions of long texts (S3).

long_texts = st.builds(
    lambda text, count: text * count,
    pick("x", "é", "漢", "𝄞", "a漢"),
    pick(0, 1, 7, 9_999, 26_666, 40_001, 80_000, 90_000),
)


def long_logs() -> st.SearchStrategy[bytes]:
    messages = st.lists(long_texts, max_size=4).map(lambda texts: b.user(*texts))
    lines = st.lists(st.one_of(messages, messages, st.just(b.legacy_compacted("S"))), max_size=5)
    return lines.map(lambda drawn: b.log(*drawn, b.legacy_compacted("end")))
