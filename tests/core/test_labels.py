"""What may be a label, how labels lie in one another, and how they are read from lines of anybody."""

from __future__ import annotations

import copy
import json
import pickle
import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rollout
from rollout import Label, UsageError, check_session_id
from rollout.dialects.codex import envelope
from rollout.format import labels
from rollout.format.labels import UNLABELLED, can_hold_label, label_of, read_label
from rollout.limits import LABEL_TAGS, TAG_KEY_CHARACTERS, TAG_VALUE_CHARACTERS
from tests import builders as b

ALLOWED = string.ascii_letters + string.digits + "_-"
session_ids = st.text(ALLOWED, min_size=1, max_size=64)
tags = st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda key: key != "session_id"), st.text(max_size=8))


def line(**keys: object) -> bytes:
    return b.line("event_msg", {"type": "x"}, **keys)


# What may be a session_id


@given(session_ids)
def test_one_to_64_allowed_characters_are_a_session_id(text: str) -> None:
    assert check_session_id(text) == text


@given(st.text(max_size=70) | st.text(ALLOWED + "\n é٣", max_size=70))
def test_nothing_but_allowed_characters_is_a_session_id(text: str) -> None:
    if 1 <= len(text) <= 64 and set(text) <= set(ALLOWED):
        assert check_session_id(text) == text
    else:
        with pytest.raises(UsageError, match="is no session_id; give 1 to 64 of A-Z"):
            check_session_id(text)


@pytest.mark.parametrize(
    "value",
    ["", "a\n", "\na", "a b", "٣", "é", "a.b", "a/b", "..", "a\0", "a" * 65, b"a", 1, None, ["a"], "\x1b[2J", "\ud800"],
)
def test_a_value_that_is_no_session_id_is_refused_on_one_printable_line(value: object) -> None:
    with pytest.raises(UsageError) as refused:
        check_session_id(value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 160


def test_a_kind_of_string_comes_out_as_a_plain_one() -> None:
    class Odd(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "no/session"

    assert type(check_session_id(Odd("abc"))) is str
    assert check_session_id(Odd("abc")) == "abc"


# What may be tags


@pytest.mark.parametrize(
    ("given_tags", "what"),
    [
        ({"a": 1}, "the tag 'a' is 1; give strings"),
        ({1: "a"}, "the tag 1 is 'a'"),
        ({"": "a"}, "'' is no key of a tag"),
        ({"a": None}, "the tag 'a' is None"),
        (["a"], r"tags are \['a'\]; give a mapping"),
        ("a=b", "tags are 'a=b'"),
        ({"k" * (TAG_KEY_CHARACTERS + 1): "a"}, f"give 1 to {TAG_KEY_CHARACTERS} characters"),
        ({"a": "v" * (TAG_VALUE_CHARACTERS + 1)}, f"has {TAG_VALUE_CHARACTERS + 1} characters"),
        ({str(n): "" for n in range(LABEL_TAGS + 1)}, f"{LABEL_TAGS + 1} tags; give {LABEL_TAGS} at most"),
        ({"session_id": "a b"}, "'a b' is no session_id"),
    ],
)
def test_what_are_no_tags_is_refused(given_tags: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        labels.label(tags=given_tags)


def test_the_longest_tags_that_are_allowed_are_written_and_read() -> None:
    most = {f"{n:0{TAG_KEY_CHARACTERS}}": "é" * TAG_VALUE_CHARACTERS for n in range(LABEL_TAGS)}
    assert label_of(b"{%b%b" % (Label(None, most).envelope, line()[1:])).tags == most


def test_tags_are_copied_when_they_are_given() -> None:
    mine = {"a": "1"}
    made = Label(None, mine)
    mine["a"] = "2"
    assert made.tags == {"a": "1"}
    with pytest.raises(TypeError):
        made.tags["a"] = "3"  # type: ignore[index]  # that it cannot be set is what is tested


def test_equal_labels_hash_alike_and_survive_copies_and_pickles() -> None:
    made = Label(check_session_id("s"), {"a": "1"})
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), Label(made.session_id, {"a": "1"})):
        assert other == made
        assert hash(other) == hash(made)
        assert other.envelope == made.envelope


# A session_id among the tags


def test_a_tag_session_id_alone_is_the_session_id() -> None:
    assert labels.label(tags={"session_id": "s"}) == labels.label("s", {"session_id": "s"})


def test_a_tag_that_disagrees_with_the_session_id_is_an_error() -> None:
    with pytest.raises(UsageError, match="the session_id is a, but the tag session_id is b; leave one"):
        labels.label("a", {"session_id": "b"})


# Labels in labels


@given(st.none() | session_ids, tags, st.none() | session_ids, tags)
def test_what_is_said_inside_counts_for_each_tag(
    outer_id: str | None, outer_tags: dict[str, str], inner_id: str | None, inner_tags: dict[str, str]
) -> None:
    found = labels.label(outer_id, outer_tags).around(labels.label(inner_id, inner_tags))
    assert found == labels.label(inner_id or outer_id, {**outer_tags, **inner_tags})


def test_a_tag_alone_does_not_change_the_session_id_that_is_set() -> None:
    outer = labels.label("a")
    with pytest.raises(UsageError, match="give session_id='b' beside it, or leave it out"):
        outer.around(labels.label(tags={"session_id": "b"}))
    assert outer.around(labels.label("b", {"session_id": "b"})).session_id == "b"


def test_an_outer_tag_session_id_follows_the_inner_session_id() -> None:
    found = labels.label(tags={"session_id": "a", "x": "1"}).around(labels.label("b"))
    assert found == labels.label("b", {"session_id": "b", "x": "1"})


# Lines


@given(st.none() | session_ids, tags)
def test_a_label_is_read_as_it_was_written(session_id: str | None, given_tags: dict[str, str]) -> None:
    made = labels.label(session_id, given_tags)
    written = b"{%b%b" % (made.envelope, line()[1:])
    assert envelope.decode_plain(written) is not None
    assert read_label(written) == (made, ())
    keys = json.loads(written)
    assert keys.get("session_id") == session_id
    assert keys.get("tags", {}) == given_tags
    assert can_hold_label(b"\n" + written + b"\n") == bool(made)


def test_a_line_without_label_keys_holds_no_label() -> None:
    assert label_of(line()) is UNLABELLED
    assert not can_hold_label(line(ordinal=7))
    assert not can_hold_label(b.item("message", content='text with "session_id": and "tags":'))


def test_the_session_id_of_a_payload_is_not_a_label() -> None:
    assert not label_of(b.session_meta(session_id="s", tags={"a": "b"}))


@pytest.mark.parametrize(
    "bare", [b'{"type":"message","session_id":"s"}', b'{"id":"i","timestamp":"t","session_id":"s"}']
)
def test_a_record_without_envelope_has_no_label(bare: bytes) -> None:
    assert not label_of(bare)


@pytest.mark.parametrize(
    ("keys", "session_id", "found_tags", "wrong"),
    [
        ({"session_id": 5, "tags": {"a": "b"}}, None, {"a": "b"}, ["its session_id is not a string"]),
        ({"session_id": None, "tags": None}, None, {}, []),
        ({"session_id": "a\n"}, None, {}, ["'a\\n' is no session_id"]),
        ({"session_id": "s", "tags": []}, "s", {}, ["its tags are no object"]),
        ({"session_id": "s", "tags": "a=b"}, "s", {}, ["its tags are no object"]),
        ({"tags": {"a": 1, "b": "2"}}, None, {"b": "2"}, ["the tag 'a' is no string"]),
        ({"tags": {"": "1", "b": "2"}}, None, {"b": "2"}, ["'' is no key of a tag"]),
        ({"tags": {"session_id": "s"}}, "s", {"session_id": "s"}, []),
        ({"tags": {"session_id": "a b", "x": "1"}}, None, {"x": "1"}, ["'a b' is no session_id"]),
        ({"session_id": "s", "tags": {"session_id": "t", "x": "1"}}, "s", {"x": "1"}, ["tag session_id is 't'"]),
        ({"tags": {str(n): "" for n in range(LABEL_TAGS + 1)}}, None, {}, [f"it has {LABEL_TAGS + 1} tags"]),
    ],
)
def test_what_is_not_right_in_a_read_label_counts_as_unset_and_is_told(
    keys: dict[str, object], session_id: str | None, found_tags: dict[str, str], wrong: list[str]
) -> None:
    label, reasons = read_label(line(**keys))
    assert (label.session_id, label.tags) == (session_id, found_tags)
    assert len(reasons) == len(wrong)
    assert all(re.search(re.escape(part), reason) for part, reason in zip(wrong, reasons, strict=True))


@given(
    st.binary(max_size=40),
    st.sampled_from([b'"session_id":"\\ud800",', b'"session_id"', b'"tags":{', b'"payload":1,"tags":']),
)
def test_reading_a_label_never_fails(data: bytes, sign: bytes) -> None:
    assert isinstance(label_of(data + sign + data), Label)
    assert isinstance(label_of(b"{" + sign + data + b"}"), Label)


def test_a_tag_timestamp_does_not_hide_the_record_behind_a_torn_line() -> None:
    made = Label(None, {"timestamp": "t"})
    torn = b'{"timestamp":"2026-03-20T10:00:00.000Z","type":"respon'
    good = b'{"timestamp":"%b",%b"type":"event_msg","payload":{"type":"x"}}' % (b.TIME.encode(), made.envelope)
    found = [record for record in rollout.records(torn + good + b"\n") if not record.is_damaged]
    assert [record.tags for record in found] == [{"timestamp": "t"}]
