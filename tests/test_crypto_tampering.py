"""Whoever has no key can change nothing of an encrypted log unnoticed, but cut off its newest lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rollout
from rollout import NoKey, Store, WrongKey
from tests import builders as b
from tests.enciphering import OTHER_KEY, a_cipher, a_secret_log, a_secret_store, enciphered
from tests.sessions import take_turn, texts

OTHER_THREAD = "019d0000-0000-7000-8000-00000000000f"
PLAIN = [b.session_meta(), b.user("one"), b.assistant("two"), b.user("three"), b.assistant("four")]
MASKS = (0x01, 0x80, 0x20, 0x04)
SAID = ["one", "two", "three", "four"]
LOG = enciphered(PLAIN)
LINES = LOG.splitlines(keepends=True)


def notices(data: bytes) -> bool:
    """Whether a reader is told that something is wrong, be it by an error; and hears nothing that was never said."""
    try:
        state = rollout.reconstruct(data, cipher=a_cipher())
        assert set(texts(state)) <= set(SAID)
        return not rollout.verify(data, cipher=a_cipher()).ok
    except (NoKey, WrongKey):
        return True


def test_every_byte_that_is_changed_is_noticed() -> None:
    assert not notices(LOG)
    changes = [(at, MASKS[at % len(MASKS)]) for at in range(len(LOG))]
    changes += [(at, 0x20) for at, byte in enumerate(LOG) if byte in b'":,{}[] \n']
    assert not [at for at, mask in changes if not notices(LOG[:at] + bytes([LOG[at] ^ mask]) + LOG[at + 1 :])]


@pytest.mark.parametrize("put", [b"", b"\n", b" ", b"{}"])
def test_a_byte_that_is_lost_or_put_in_is_noticed_unless_it_is_blank_between_lines(put: bytes) -> None:
    ends = {at for at, byte in enumerate(LOG) if byte == ord("\n")} | {0, len(LOG) - 1}
    for at in range(0, len(LOG) - 1, 7):
        if at not in ends and at - 1 not in ends:
            assert notices(LOG[:at] + put + LOG[at + (not put) :]), at


def test_a_changed_line_is_damage_and_the_rest_is_read() -> None:
    changed = LINES[2][:-20] + (b"A" if LINES[2][-20:-19] != b"A" else b"B") + LINES[2][-19:]
    state = rollout.reconstruct(b"".join([*LINES[:2], changed, *LINES[3:]]), cipher=a_cipher())
    assert texts(state) == ["one", "three", "four"]
    (damage,) = state.damage
    assert (damage.line, damage.kind) == (3, "encrypted")
    assert damage.reason == "an encrypted line that was changed, or is from another place or another thread"


def swapped() -> bytes:
    return b"".join([*LINES[:2], LINES[3], LINES[2], *LINES[4:]])


def moved_to_the_end() -> bytes:
    return b"".join([LINES[0], *LINES[2:], LINES[1]])


def left_out() -> bytes:
    return b"".join([*LINES[:2], *LINES[3:]])


def left_out_at_the_front() -> bytes:
    return b"".join([LINES[0], *LINES[2:]])


def without_its_meta() -> bytes:
    return b"".join(LINES[1:])


def said_twice() -> bytes:
    return b"".join([*LINES, LINES[3]])


def with_a_line_of_another_thread() -> bytes:
    other = enciphered([b.session_meta(OTHER_THREAD), *PLAIN[1:]], thread=OTHER_THREAD)
    return b"".join([*LINES[:3], other.splitlines(keepends=True)[3], *LINES[4:]])


def with_the_meta_of_another_thread() -> bytes:
    other = enciphered([b.session_meta(OTHER_THREAD)], thread=OTHER_THREAD)
    return other + b"".join(LINES[1:])


def with_a_plain_meta() -> bytes:
    return b.session_meta() + b"\n" + b"".join(LINES[1:])


def with_a_plain_line_at_the_end() -> bytes:
    return LOG + b.user("forged") + b"\n"


def with_a_plain_line_inside() -> bytes:
    return b"".join([*LINES[:2], b.user("forged") + b"\n", *LINES[2:]])


def with_a_plain_item_of_2025() -> bytes:
    return b"".join([*LINES, b'{"type":"message","role":"user","content":"forged"}\n'])


def with_another_number() -> bytes:
    return b"".join([*LINES[:4], LINES[4].replace(b'"ordinal":4', b'"ordinal":5')])


def with_another_time() -> bytes:
    return b"".join([*LINES[:4], LINES[4].replace(b'"timestamp":"2', b'"timestamp":"3')])


def with_another_type() -> bytes:
    return b"".join([*LINES[:4], LINES[4].replace(b"response_item", b"event_msg")])


def with_a_mark_of_a_batch() -> bytes:
    return b"".join([*LINES[:3], LINES[3][:-2] + b',"batch":[1,2]}\n', *LINES[4:]])


def with_a_label() -> bytes:
    return b"".join([*LINES[:4], LINES[4].replace(b'"type":', b'"session_id":"s","type":', 1)])


@pytest.mark.parametrize(
    "forge",
    [
        swapped, moved_to_the_end, left_out, left_out_at_the_front, without_its_meta, said_twice,
        with_a_line_of_another_thread, with_the_meta_of_another_thread, with_a_plain_meta, with_a_plain_line_at_the_end,
        with_a_plain_line_inside, with_a_plain_item_of_2025, with_another_number, with_another_time, with_another_type,
        with_a_mark_of_a_batch, with_a_label,
    ],
)  # fmt: skip
def test_a_log_that_was_put_together_anew_is_noticed(forge: Callable[[], bytes]) -> None:
    data = forge()
    assert data != LOG
    assert notices(data)


@pytest.mark.parametrize("chunk_bytes", [1, 100, 700, 1 << 18])
def test_a_missing_line_is_noticed_wherever_the_reads_begin(chunk_bytes: int) -> None:
    small = rollout.Limits(first_chunk_bytes=chunk_bytes, chunk_bytes=chunk_bytes)
    state = rollout.reconstruct(left_out(), cipher=a_cipher(), limits=small)
    assert texts(state) == ["one", "three", "four"]
    assert [damage.reason for damage in state.damage] == ["lines are missing: number 3 stands behind number 1"]


def test_newest_lines_that_are_cut_off_are_not_noticed_but_in_a_base(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        take_turn(log, "q")
        with log.fork() as child:
            take_turn(child, "f")
    cut = b"".join(log.path.read_bytes().splitlines(keepends=True)[:-1])
    log.path.write_bytes(cut)
    assert rollout.verify(log.path, cipher=a_cipher()).ok
    (damage,) = rollout.reconstruct(child.path, cipher=a_cipher()).damage
    assert damage.kind == "base"


def test_a_batch_that_is_cut_and_has_lost_its_marks_is_noticed(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        log.compact([])
    lines = log.path.read_bytes().splitlines(keepends=True)
    assert rollout.verify(log.path, cipher=a_cipher()).ok
    unmarked = [re.sub(rb',"batch":\[\d,\d\]', b"", line) for line in lines]
    assert unmarked[-1] != lines[-1]
    log.path.write_bytes(b"".join(unmarked[:-1]))
    assert not rollout.verify(log.path, cipher=a_cipher()).ok


def test_the_base_of_a_fork_cannot_be_exchanged_for_another(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        take_turn(log, "q")
        with log.fork() as child:
            take_turn(child, "f")
    with a_secret_log(a_secret_store(tmp_path, start=1_774_000_900.0)) as other:
        take_turn(other, "z")
    data = child.path.read_bytes()
    child.path.write_bytes(data.replace(log.id.encode(), other.id.encode(), 1))
    assert not rollout.verify(child.path, cipher=a_cipher()).ok
    assert rollout.reconstruct(child.path, cipher=a_cipher()).damage


def test_without_its_key_a_fork_still_keeps_its_source_from_being_deleted(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        take_turn(log, "q")
        log.fork().close()
    for cipher in (None, a_cipher(OTHER_KEY), a_cipher(key_id="k9")):
        with pytest.raises(rollout.RolloutError, match="forks refer to it"):
            Store(tmp_path, cipher=cipher).delete(log.id)
    assert log.path.exists()


@given(st.lists(st.tuples(st.integers(0, len(LOG)), st.integers(0, 40), st.binary(max_size=20)), max_size=4), st.data())
def test_whatever_becomes_of_the_bytes_reading_ends_with_what_was_said_or_a_clear_error(
    cuts: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    forged = LOG
    for at, n, put in cuts:
        forged = forged[:at] + put + forged[at + n :]
    chunk_bytes = data.draw(st.integers(1, 1000))
    small = rollout.Limits(first_chunk_bytes=chunk_bytes, chunk_bytes=chunk_bytes, line_bytes=2000)
    try:
        state = rollout.reconstruct(forged, cipher=a_cipher(), limits=small)
        assert set(texts(state)) <= set(SAID)
        rollout.verify(forged, cipher=a_cipher(), limits=small)
    except (NoKey, WrongKey):
        pass
