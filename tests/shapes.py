"""Shapes of logs and homes that are hard on a reader: each is made in any size, and a reader's work follows its size.

A shape is what a hostile or a very busy writer can leave, with as many repetitions as it is asked for. `LOGS` are
single files, `HOMES` are folders of files that go on from one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tests import builders as b
from tests import homes

Shape = Callable[[int], bytes]


def whole_turn(k: int) -> list[bytes]:
    """The k-th turn, with all that programs write in one: it gives the context the first time."""
    id = f"t{k}"
    return [
        b.started(id),
        *([b.contextual()] if k == 0 else []),
        b.context(id),
        b.user(f"question {k}"),
        b.user_message(f"question {k}"),
        b.call(f"c{k}"),
        b.output(f"c{k}"),
        b.assistant(f"answer {k}"),
        b.token_count(100 * (k + 1)),
        b.completed(id),
    ]


def turn(k: int) -> list[bytes]:
    """The k-th turn, as short as one can be: what one step too many costs for each shows the sooner."""
    first = [b.contextual(), b.context(f"t{k}")] if k == 0 else []
    return [b.started(f"t{k}"), *first, b.user(f"question {k}"), b.completed(f"t{k}")]


def _log(lines: Iterator[bytes]) -> bytes:
    return b.log(b.session_meta(), *lines)


def turns(n: int) -> bytes:
    return _log(line for k in range(n) for line in whole_turn(k))


def small_turns(n: int) -> bytes:
    return _log(line for k in range(n) for line in turn(k))


def turn_and_rollback(n: int) -> bytes:
    return _log(line for k in range(n) for line in (*turn(k), b.rolled_back()))


def rolled_back_at_once(n: int) -> bytes:
    return _log(line for line in (*(line for k in range(n) for line in turn(k)), b.rolled_back(n)))


def rolled_back_one_by_one(n: int) -> bytes:
    return _log(line for line in (*(line for k in range(n) for line in turn(k)), *[b.rolled_back()] * n))


def messages_rolled_back_one_by_one(n: int) -> bytes:
    return _log(line for line in (*(b.user(f"q{k}") for k in range(n)), *[b.rolled_back()] * n))


def rolled_back_by_more_and_more(n: int) -> bytes:
    """Each rollback takes two turns, one of them taken back already."""
    return _log(line for k in range(n) for line in (*turn(k), b.rolled_back(2)))


def compact_and_rollback(n: int) -> bytes:
    def lines() -> Iterator[bytes]:
        for k in range(n):
            yield from turn(k)
            yield b.compacted([b.user_item(f"kept {k}")])
            yield b.rolled_back()

    return _log(lines())


def old_compactions(n: int) -> bytes:
    return _log(line for k in range(n) for line in (*turn(k), b.legacy_compacted(f"summary {k}")))


def old_compactions_of_nothing(n: int) -> bytes:
    return _log(line for k in range(n) for line in (b.user(""), b.legacy_compacted("s")))


def compactions(n: int) -> bytes:
    return _log(line for k in range(n) for line in (*turn(k), b.compacted([b.user_item(f"kept {k}")])))


def compactions_of_much(n: int) -> bytes:
    """One compaction of many items, one of them malformed."""
    kept = [b.user_item(f"kept {k}") for k in range(n)]
    return _log(line for line in (*turn(0), b.compacted([*kept, {"type": "function_call"}]), *turn(1)))


def one_line_with_nul(n: int) -> bytes:
    return b.log(b.session_meta(), b"\0".join(line for k in range(n) for line in turn(k)))


def one_line_glued(n: int) -> bytes:
    """Records in one line, behind one another and behind torn ones."""
    return b.log(b.session_meta(), b"".join(line + line[:20] for k in range(n) for line in turn(k)))


def one_line_of_garbage(n: int) -> bytes:
    return b.log(b.session_meta(), *turn(0), b"\0".join([b"garbage"] * n), b'{"timestamp":"' * n)


def one_tail_with_nul(n: int) -> bytes:
    return b.log(b.session_meta()) + b"\0".join([b"garbage", *turn(0)] * n)


def damaged_lines(n: int) -> bytes:
    def lines() -> Iterator[bytes]:
        for k in range(n):
            yield from turn(k)[:3]
            yield from (b"garbage", b'{"timestamp":"', b"", b"\xff\xfe")

    return _log(lines())


def doubled_ids(n: int) -> bytes:
    return _log(line for _ in range(n) for line in turn(1))


def steering(n: int) -> bytes:
    """One turn with many messages of the user, each of them taken back."""
    return _log(
        line
        for line in (
            b.started("t"),
            b.context("t"),
            b.user("first"),
            *(line for k in range(n) for line in (b.user(f"more {k}"), b.call(), b.output(), b.rolled_back())),
            b.completed("t"),
        )
    )


def steering_behind_contexts(n: int) -> bytes:
    """The same, with as much behind the first message as is to be looked through for contextual messages."""
    return _log(
        line
        for line in (
            b.started("t"),
            b.user("first"),
            *([b.context("t"), b.world_state({}, full=False)] * n),
            *(line for k in range(n) for line in (b.user(f"more {k}"), b.rolled_back())),
            b.completed("t"),
        )
    )


def world_patches(n: int) -> bytes:
    def lines() -> Iterator[bytes]:
        yield b.world_state({"a": 1})
        for k in range(n):
            yield from turn(k)
            yield b.world_state({f"k{k % 7}": k}, full=False)

    return _log(lines())


def items_removed(n: int) -> bytes:
    return _log(line for k in range(n) for line in (*turn(k), b.items_removed(2)))


def items_removed_at_the_end(n: int) -> bytes:
    return _log(line for line in (*(b.assistant(f"a{k}") for k in range(n)), *[b.items_removed()] * n))


def open_turns(n: int) -> bytes:
    return _log(line for k in range(n) for line in turn(k)[:-1])


def no_lifecycle(n: int) -> bytes:
    return _log(line for k in range(n) for line in (b.contextual(), b.user(f"q{k}"), b.assistant(f"a{k}")))


def compaction_tasks(n: int) -> bytes:
    """Turns without a user's message: nothing but items that a rollback may have to leave."""
    return _log(
        line
        for line in (
            *(line for k in range(n) for line in (b.started(f"t{k}"), b.assistant("a"), b.completed(f"t{k}"))),
            *(line for _ in range(n) for line in (b.rolled_back(), b.started(), b.assistant("b"))),
        )
    )


def blank_lines(n: int) -> bytes:
    return _log(line for line in (*turn(0), *[b""] * n, *[b"\r"] * n, *[b"\0\0"] * n))


def batches(n: int) -> bytes:
    """Batches that are not whole, one behind the other."""
    marked = b.assistant("a")[:-1] + b',"batch":[1,2]}'
    return _log(line for line in (*turn(0), *[marked] * n))


LOGS: dict[str, Shape] = {
    shape.__name__.replace("_", " "): shape
    for shape in (
        turns,
        small_turns,
        turn_and_rollback,
        rolled_back_at_once,
        rolled_back_one_by_one,
        messages_rolled_back_one_by_one,
        rolled_back_by_more_and_more,
        compact_and_rollback,
        old_compactions,
        old_compactions_of_nothing,
        compactions,
        compactions_of_much,
        one_line_with_nul,
        one_line_glued,
        one_line_of_garbage,
        one_tail_with_nul,
        damaged_lines,
        doubled_ids,
        steering,
        steering_behind_contexts,
        world_patches,
        items_removed,
        items_removed_at_the_end,
        open_turns,
        no_lifecycle,
        compaction_tasks,
        blank_lines,
        batches,
    )
}


def chain(home: Path, n: int, *more: bytes) -> None:
    """Each file goes on from the whole of the one before it, with `more` ahead of a turn of its own."""
    base: dict[str, object] = {}
    for k in range(n):
        data = b.log(homes.meta_of(k, **base), *more, *turn(k))
        homes.put_data(homes.path_of(home, k), data)
        base = {"forked_from_id": homes.thread_id(k), "history_base": _base(k, len(data))}


def star(home: Path, n: int) -> None:
    """Forks of one file, one at each of its turns."""
    meta = homes.meta_of(0)
    data = b.log(meta)
    ends = []
    for k in range(n):
        data += b.log(*turn(k))
        ends.append(len(data))
    homes.put_data(homes.path_of(home, 0), data)
    for k, end in enumerate(ends, 1):
        homes.put(home, k, *turn(k), forked_from_id=homes.thread_id(0), history_base=_base(0, end))


def _base(k: int, end: int) -> dict[str, object]:
    return {"thread_id": homes.thread_id(k), "end_byte_offset": end}


def many(home: Path, n: int) -> None:
    """Sessions that have nothing to do with each other."""
    for k in range(n):
        homes.put(home, k, *turn(k))


HOMES: dict[str, Callable[[Path, int], None]] = {
    "chain": chain,
    "chain with rollbacks": lambda home, n: chain(home, n, b.rolled_back()),
    "star": star,
    "many": many,
}
