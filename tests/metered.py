"""Builders of records that tell of tokens, and random logs of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests import builders as b

OLD_TURN, NEW_TURN = "019cffff-0000-7000-8000-00000000000b", "019d0000-0001-7000-8000-00000000000c"
"""Ids of turns that were begun before the thread of the builders was, and after."""
SOURCE = "019cfffe-0000-7000-8000-00000000000d"
LATER = "2026-03-22T01:00:00.000Z"


def counts(total: int, **more: int) -> dict[str, int]:
    return {"total_tokens": total, **more}


def metered(total: int, last: int | None = None, *, window: int | None = 1000, time: str = b.TIME) -> bytes:
    """A token_count: the running total, what the last request took, the window."""
    info: dict[str, Any] = {"total_token_usage": counts(total), "model_context_window": window}
    if last is not None:
        info["last_token_usage"] = counts(last)
    return at(time, b.event("token_count", info=info))


def recorded(total: int, last: int) -> bytes:
    """A token_usage_record: the running total of the thread, what the request took."""
    return b.line("token_usage_record", {"thread_token_usage": counts(total), "usage": counts(last)})


def at(time: str, line: bytes) -> bytes:
    """The line as it would be at that time."""
    return line.replace(b.TIME.encode(), time.encode(), 1)


readings = st.builds(
    metered,
    st.integers(0, 2000),
    st.one_of(st.none(), st.integers(0, 900)),
    time=st.sampled_from([b.TIME, LATER, "no time", "2026-03-22T01:00:00+05:00"]),
)
odd = st.sampled_from(
    [
        b.event("token_count", info=None),
        b.event("token_count", info={"total_token_usage": None, "last_token_usage": {"total_tokens": -7}}),
        b.event("token_count", info={"total_token_usage": {"total_tokens": 2**70, "input_tokens": "x"}}),
        b.event("token_count"),
        recorded(700, 70),
        recorded(790, 90),
        b.line("token_usage_record", 7),
        b.line("turn_context", {"model": 7}),
        b"garbage",
        b"",
        metered(5, 5) + metered(9, 4),
        b"\0" + metered(11, 2) + b"\0",
        metered(15, 3) + b" garbage",
    ]
)
turns = st.sampled_from([b.started(OLD_TURN), b.started(NEW_TURN), b.started("t1"), b.started(), b.completed()])
others = st.sampled_from(
    [
        b.user("q"),
        b.assistant("a"),
        b.rolled_back(1),
        b.rolled_back(2),
        b.compacted([b.user_item("s")]),
        b.legacy_compacted("s"),
        b.context(NEW_TURN, "m1"),
        b.context(OLD_TURN, "m2"),
        b.session_meta(SOURCE),
    ]
)
lines = st.lists(st.one_of(readings, readings, odd, turns, others), max_size=16)
logs = st.builds(lambda own, rest: b.log(*own, *rest), st.sampled_from([[b.session_meta()], []]), lines)
