"""What a line holds: which bytes are a record, which are damaged, and what is odd but harmless."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.names import RECORD_TYPES
from rollout.format import strict_json
from rollout.items.kinds import Head
from tests import builders as b
from tests import reference
from tests import strategies as logs
from tests.reference import decode_line

RECORD = b.event("x")
SCALARS: tuple[object, ...] = (None, True, 7, 1.5, [], "x")


def kinds(line: bytes) -> list[str]:
    """The type of each record of a line, and the kind of each damage."""
    return [piece.kind if piece.envelope is None else str(piece.envelope.type) for piece in codec.split(line)]


def is_record(line: bytes) -> bool:
    pieces = list(codec.split(line))
    return [piece.data for piece in pieces if piece.envelope is not None] == [line]


def nested(depth: int, text: str = "") -> bytes:
    """A record of this depth: the object is 1, its payload 2."""
    return b'{"type":"x","payload":{"a":%b%b%b}}' % (b"[" * (depth - 2), text.encode() or b"0", b"]" * (depth - 2))


# What is a record


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"event_msg","payload":{"type":"x"}}',
        b'{"type":"not_known_yet","payload":null}',
        b'{"type":"","payload":7}',
        b'{"payload":[],"type":"x","timestamp":7}',
        b'{"type":"session_meta","payload":"malformed, but a record"}',
        b' {"type":"x","payload":{}} '.strip(),
        *(b.dump({"type": kind}) for kind in reference.ITEM_TYPES),
        *(b.dump({"timestamp": b.TIME, "ordinal": 3, "type": kind}) for kind in reference.ITEM_TYPES),
        b'{"type":"not_known_yet"}',
        b'{"type":"not_known_yet","role":"user","content":[]}',
        b'{"record_type":"state"}',
        b'{"record_type":null,"id":7}',
        b'{"id":"a","timestamp":"t"}',
        b'{"id":"a","timestamp":null,"instructions":null}',
        b'{"type":"not a record","type":"x","payload":1,"payload":{}}',
        b'{"type":7,"type":"x","payload":{}}',
    ],
)
def test_what_names_its_kind_in_one_of_the_known_shapes_is_a_record(line: bytes) -> None:
    assert is_record(line)
    assert decode_line(line) == [(0, json.loads(line))]


@pytest.mark.parametrize(
    "line",
    [
        *(json.dumps(value).encode() for value in SCALARS),
        b"{}",
        b'{"payload":{}}',
        *(b.dump({"type": value, "payload": {}}) for value in SCALARS if value != "x"),
        *(b.dump({"type": kind}) for kind in sorted(RECORD_TYPES)),
        b'{"timestamp":"t","type":"not_known_yet"}',
        b'{"ordinal":1,"type":"not_known_yet"}',
        b'{"record_type":"state","type":"not_known_yet"}',
        b'{"id":7,"timestamp":"t"}',
        b'{"id":"a"}',
        b'{"type":"x","payload":{},"type":7}',
    ],
)
def test_json_in_any_other_shape_is_no_record(line: bytes) -> None:
    assert kinds(line) == ["not_a_record"]
    assert codec.decode_plain(line) is None
    assert decode_line(line) == [(0, None)]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"garbage", "json"),
        (RECORD[:-1], "json"),
        (RECORD + b"}", "json"),
        (RECORD + b" x", "json"),
        (RECORD.replace(b'"x"', b"'x'"), "json"),
        (b'{"type":"x","payload":{"a":1,}}', "json"),
        (b'{"type":"x","payload":{"text":"\x01"}}', "json"),
        (b'{"type":"x","payload":{"text":"\t"}}', "json"),
        (b'{"type":"x","payload":{"text":"\\x41"}}', "json"),
        (b'{"type":"x","payload":NaN}', "json"),
        (b'{"type":"x","payload":[Infinity]}', "json"),
        (b'{"type":"x","payload":-Infinity}', "json"),
        (b'{"type":"x","payload":01}', "json"),
        (b'{"type":"x","payload":"\\ud800"}', "json"),
        (b'{"type":"x","payload":"\\udc00\\ud800"}', "json"),
        (b'{"type":"x","payload":"\\ud800x"}', "json"),
        (b'{"type":"x\\ud800","payload":{}}', "json"),
        (b'{"type":"event\xff_msg","payload":{}}', "utf8"),
        (b'{"timestamp":"t","type":"even\xff_msg","payload":{}}', "utf8"),
        (b'{"type":"x","payload":{"text":"\xff"}}', "utf8"),
        (b'{"type":"x","payload":{"\xc3":1}}', "utf8"),
        (b'{"type":"x","payload":"\xed\xa0\x80"}', "utf8"),
        (b'{"type":"x","payload":"\xc0\x80"}', "utf8"),
    ],
)
def test_bytes_that_are_not_strict_json_are_damage_of_their_kind(line: bytes, kind: str) -> None:
    assert kinds(line) == [kind]
    assert codec.decode_plain(line) is None
    assert decode_line(line) == [(0, None)]


def test_a_pair_of_surrogate_escapes_is_one_character() -> None:
    line = b'{"type":"x","payload":"\\ud83d\\ude00"}'
    assert is_record(line)
    assert strict_json.decode_value(codec.payload_of(line)) == "\U0001f600"


@pytest.mark.parametrize("escaped", ["timestamp", "id", "ordinal", "anything"])
def test_a_lone_surrogate_is_damage_in_a_value_that_nobody_needs_too(escaped: str) -> None:
    line = b'{"type":"x","payload":{},"%b":"\\udfff"}' % escaped.encode()
    assert kinds(line) == ["json"]
    assert codec.decode_plain(line) is None


# What stands around a record in its line


@pytest.mark.parametrize(
    "line",
    [
        RECORD + b"\r",
        b" \t\x0b\x0c" + RECORD + b" \x0b\x0c\r",
        b"\xef\xbb\xbf" + RECORD,
        b" \xef\xbb\xbf " + RECORD + b"\r",
        b"\0" * 100 + RECORD,
        RECORD + b"\0" * 100,
        b"\0 \0\xef\xbb\xbf" + RECORD + b"\0\r",
    ],
)
def test_nul_bytes_white_space_and_a_byte_order_mark_around_a_record_are_nothing(line: bytes) -> None:
    (piece,) = codec.split(line)
    assert piece.envelope == codec.Envelope("event_msg", Head("x"))
    assert (piece.data, piece.offset) == (RECORD, line.index(b"{"))


@pytest.mark.parametrize(
    "line", [b"", b"\r", b" \t\r", b"\0", b"\0\0 \0\r", b"\x0b\x0c", b"\xef\xbb\xbf", b" \xef\xbb\xbf\r"]
)
def test_a_line_of_nothing_else_is_blank(line: bytes) -> None:
    assert list(codec.split(line)) == []
    assert codec.decode_plain(line) is None


@pytest.mark.parametrize("front", [b"\xef\xbb\xbf\xef\xbb\xbf", b"\xc2\xa0", b"\xe2\x80\xa8", b"\x1c"])
def test_other_white_space_or_a_second_mark_ahead_of_a_record_is_damage_beside_it(front: bytes) -> None:
    assert kinds(front + RECORD) == ["json", "event_msg"]


def test_a_run_of_nul_bytes_parts_two_records_of_a_line() -> None:
    assert kinds(RECORD + b"\0\0" + b.user("q") + b"\0torn") == ["event_msg", "response_item", "json"]


def test_a_record_that_is_glued_behind_a_torn_one_is_recovered_and_both_are_told() -> None:
    torn, whole = b.user("lost")[:-9], b.user("q")
    first, second = codec.split(torn + whole)
    assert (first.offset, first.data, first.kind) == (0, torn, "json")
    assert (second.offset, second.data, second.kind) == (len(torn), whole, "")


def test_several_records_in_one_line_are_all_recovered() -> None:
    assert kinds(RECORD + b.user("q") + b" " + RECORD) == ["event_msg", "response_item", "event_msg"]


def test_the_beginning_of_a_record_inside_a_string_of_a_good_one_cuts_nothing() -> None:
    inner = json.dumps('{"timestamp":"t","type":"x","payload":{}}')
    assert inner.startswith('"{\\"timestamp\\":\\"')
    assert is_record(b'{"type":"x","payload":%b}' % inner.encode())


def test_an_escaped_beginning_of_a_record_cuts_no_damaged_line_either() -> None:
    line = b'{"type":"x","payload":"\\{"timestamp":"'
    assert [piece.data for piece in codec.split(line)] == [line]


def test_a_torn_line_whose_own_beginning_is_that_of_a_record_is_one_piece() -> None:
    assert [piece.data for piece in codec.split(RECORD[:-3])] == [RECORD[:-3]]


@pytest.mark.parametrize(("line", "kind"), [(RECORD[:-3], "torn"), (b"7", "not_a_record"), (b"\xff", "utf8")])
def test_half_a_line_at_the_end_of_a_file_is_torn(line: bytes, kind: str) -> None:
    (piece,) = codec.split(line)
    assert piece.as_tail().kind == kind
    assert piece.as_tail().data == line


# Depth


def test_a_record_may_be_128_levels_deep_and_not_129() -> None:
    assert is_record(nested(128))
    assert kinds(nested(129)) == ["deep"]
    assert is_record(nested(128, '"' + "[" * 500 + '"'))
    long = '"' + "[x" * 50_000 + '"'
    assert is_record(nested(128, long))
    assert kinds(nested(129, long)) == ["deep"]
    assert codec.decode_plain(nested(128)) is not None
    assert codec.decode_plain(nested(129)) is None


def test_the_depth_limit_can_be_another_one() -> None:
    assert [piece.kind for piece in codec.split(nested(5), 4)] == ["deep"]
    assert [piece.kind for piece in codec.split(nested(4), 4)] == [""]
    assert codec.decode_plain(nested(5), 4) is None


@pytest.mark.parametrize("text", ['\\n\\"[' * 130, "\\\\" * 130, "[" * 1000, "\\\\\\" + '"[' * 1, '{\\"a\\":' * 200])
def test_brackets_in_strings_are_not_nesting(text: str) -> None:
    line = b'{"type":"x","payload":{"text":"%b"}}' % text.encode()
    assert is_record(line)
    assert not strict_json.is_too_deep(line, 128)


@pytest.mark.parametrize("count", [1_000, 100_000])
@pytest.mark.parametrize("bracket", [b"[", b'{"a":', b'[{"payload":'])
def test_any_number_of_opening_brackets_is_damage_and_no_exception(bracket: bytes, count: int) -> None:
    for line in (bracket * count, b'{"type":"x","payload":' + bracket * count, nested(count)):
        assert all(piece.envelope is None for piece in codec.split(line))
        assert codec.decode_plain(line) is None


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(['"', "\\", "[{", '\\"]'])),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(json_values, st.booleans(), st.integers(0, 8))
def test_the_depth_of_any_json_is_found_without_decoding_it(value: Any, is_ascii: bool, depth: int) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    assert strict_json.is_too_deep(data, depth) == (depth_of(value) > depth)


def test_millions_of_brackets_side_by_side_cost_little_more_than_the_line() -> None:
    line = b'{"type":"x","payload":{"a":[%b0]}}' % (b"[]," * 2_400_000)
    tracemalloc.start()
    envelope = codec.decode_plain(line)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert envelope is not None
    assert peak < 4 * len(line)


# Numbers


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("12345678901234567890123", 12345678901234567890123),
        ("-12345678901234567890123", -12345678901234567890123),
        ("18446744073709551616", 2**64),
        ("1e999", float("inf")),
        ("-1e999", float("-inf")),
        ("1" * 5000, Decimal("1" * 5000)),
        ("1e-999", 0.0),
        ("0.1", 0.1),
    ],
)
def test_a_number_of_any_size_decodes_without_an_exception(number: str, value: object) -> None:
    line = b'{"type":"x","payload":{"n":%b}}' % number.encode()
    assert is_record(line)
    assert codec.decode_plain(line) is not None
    assert strict_json.decode_value(codec.payload_of(line)) == {"n": value}
    assert bytes(codec.payload_of(line)) == b'{"n":%b}' % number.encode()


# The envelope


@pytest.mark.parametrize(
    ("line", "envelope"),
    [
        (b.user("q"), codec.Envelope("response_item", Head("message", "user"))),
        (b'{"type":"x","payload":7}', codec.Envelope("x", None)),
        (b'{"type":"x","payload":null}', codec.Envelope("x", None)),
        (b'{"type":"x","payload":{"type":7,"role":[]}}', codec.Envelope("x", Head())),
        (b'{"type":"response_item","payload":{"type":"message","role":7}}', codec.Envelope("response_item", None)),
        (b'{"type":"response_item","payload":{"type":"m","role":null}}', codec.Envelope("response_item", Head("m"))),
        (b'{"type":"message","role":"user"}', codec.Envelope("message", UNSET, "user")),
        (b'{"type":"message","role":null}', codec.Envelope("message", UNSET)),
        (b'{"type":"message","role":7}', codec.Envelope("response_item", None)),
        (b.bare_meta(), codec.SESSION_META),
        (b.bare_state(), codec.PASSED_OVER),
        (b'{"type":"x","payload":{"type":"a"},"payload":{"type":"b"}}', codec.Envelope("x", Head("b"))),
    ],
)
def test_the_envelope_says_what_a_line_is(line: bytes, envelope: codec.Envelope) -> None:
    assert [piece.envelope for piece in codec.split(line)] == [envelope]


def test_the_payload_of_a_bare_item_is_the_item() -> None:
    line = b.bare_item(b.user_item("q"))
    assert bytes(codec.payload_of(line)) == line
    assert bytes(codec.payload_of(b.user("q"))) == b.dump(b.user_item("q"))


@pytest.mark.parametrize(("raw", "text"), [(b'"a\\u0062"', "ab"), (b'""', ""), (b"7", None), (b"null", None)])
def test_a_text_is_a_string_and_nothing_else(raw: bytes, text: str | None) -> None:
    assert strict_json.text_of(Raw(raw)) == text
    assert strict_json.text_of(UNSET) is None


# Fast and careful, engine and reference agree


lines_of_logs = st.one_of(logs.any_logs(6), logs.damaged_logs(6), logs.hostile_bytes).map(
    lambda data: data.split(b"\n")
)


@settings(max_examples=300)
@given(lines_of_logs)
def test_the_quick_look_and_the_careful_one_agree_on_every_line(lines: list[bytes]) -> None:
    for line in lines:
        plain = codec.decode_plain(line)
        if plain is not None:
            (piece,) = codec.split(line)
            assert piece.envelope is not None
            quick, careful = plain.payload, piece.envelope.payload
            assert (plain.type, plain.role) == (piece.envelope.type, piece.envelope.role)
            if isinstance(quick, Head) and isinstance(careful, Head):
                assert (quick.type, quick.role) == (careful.type, careful.role)
            else:
                assert quick is careful


@settings(max_examples=300)
@given(lines_of_logs)
def test_a_line_holds_the_records_that_the_rules_find_in_it(lines: list[bytes]) -> None:
    for line in lines:
        found = [(piece.offset, piece.envelope is not None) for piece in codec.split(line)]
        assert found == [(offset, record is not None) for offset, record in decode_line(line)]


@given(lines_of_logs)
def test_the_pieces_of_a_line_are_its_bytes_in_order(lines: list[bytes]) -> None:
    for line in lines:
        pieces = list(codec.split(line))
        assert all(line[piece.offset : piece.offset + len(piece.data)] == piece.data for piece in pieces)
        assert all(one.offset + len(one.data) <= two.offset for one, two in itertools.pairwise(pieces))
        for piece in pieces:
            if piece.envelope is not None:
                assert isinstance(strict_json.decode_value(piece.data), dict)
                assert bytes(codec.payload_of(piece.data)) in piece.data


@given(st.binary(max_size=40))
def test_utf8_is_what_python_decodes_strictly(data: bytes) -> None:
    try:
        valid = data.decode("utf-8", "strict") is not None
    except UnicodeDecodeError:
        valid = False
    assert strict_json.is_utf8(data) == valid
