"""S3: which items a history holds, what compactions leave of it, and that items stay the bytes they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import Raw

import rollout
from rollout.dialects.codex.dialect import CODEX
from rollout.fold.projection import Folded
from rollout.items.events import Entry
from rollout.items.history import History
from tests import builders as b

NO_SUMMARY = "(no summary available)"


def history_of(*lines: bytes) -> list[dict[str, Any]]:
    return list(rollout.reconstruct(b.log(*lines)).history)


def texts_of(*lines: bytes) -> list[list[str]]:
    return [[part["text"] for part in item["content"]] for item in history_of(*lines)]


IMAGE = {"type": "input_image", "image_url": b.PICTURE}


def said(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


def content(value: object) -> bytes:
    return b.item("message", role="user", content=value)


# The sequence


ENTRIES = [b.user("q1"), Raw(b.dump(b.assistant_item("a1"))), b.bare_item(b.user_item("q2"))]
ITEMS = [b.user_item("q1"), b.assistant_item("a1"), b.user_item("q2")]


def test_a_history_is_a_sequence_of_items_from_lines_and_from_bare_json() -> None:
    history = History(ENTRIES, CODEX)
    assert len(history) == 3
    assert list(history) == ITEMS
    assert history[-1] == ITEMS[-1]
    assert [*reversed(history)] == ITEMS[::-1]
    assert ITEMS[1] in history
    assert history.index(ITEMS[2]) == 2
    with pytest.raises(IndexError):
        history[3]


def test_a_slice_of_a_history_is_a_history() -> None:
    assert isinstance(History(ENTRIES, CODEX)[1:], History)
    assert History(ENTRIES, CODEX)[::-1] == ITEMS[::-1]


def test_a_history_equals_what_holds_equal_items_and_nothing_else() -> None:
    history = History(ENTRIES, CODEX)
    assert history == ITEMS
    assert history == tuple(ITEMS)
    assert history == History([Raw(b.dump(item)) for item in ITEMS], CODEX)
    assert history != ITEMS[:2]
    assert history != [*ITEMS[:2], b.user_item("other")]
    assert (History([], CODEX) == b"", History([], CODEX) == "") == (False, False)


def test_a_history_cannot_be_hashed_as_it_equals_lists() -> None:
    with pytest.raises(TypeError):
        hash(History([], CODEX))


def test_an_item_is_decoded_anew_at_each_touch() -> None:
    history = History(ENTRIES, CODEX)
    history[0]["content"].clear()
    assert history[0] == ITEMS[0]


def test_the_raw_item_is_byte_for_byte_as_it_was_recorded() -> None:
    odd = b'{ "type" : "message", "role":"user","content":[] , "n": 1.0e2, "big": %b }' % (b"1" * 5000)
    state = rollout.reconstruct(b'{"type":"response_item", "payload": %b }\n%b\n' % (odd, odd))
    assert [state.history.raw(i) for i in range(2)] == [odd, odd]


# What is visible


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "system", "content": []},
        {"type": "message", "content": []},
        {"type": "message", "role": None},
        *({"type": kind, "role": "user"} for kind in ("ghost_snapshot", "compaction_trigger", "other")),
    ],
)
def test_hidden_items_are_in_no_history(item: dict[str, object]) -> None:
    assert history_of(b.line("response_item", item), b.bare_item(item), b.user("q")) == [b.user_item("q")]
    assert history_of(b.compacted([item, b.user_item("kept")])) == [b.user_item("kept")]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "critic", "content": []},
        {"type": "not_known_yet", "role": "user", "keys": {"not": ["known"]}},
        {"type": "message", "role": "user", "content": [{"type": "not_known_yet", "text": 7}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "e"},
        {"type": "compaction", "encrypted_content": "e"},
    ],
)
def test_every_other_item_stays_whatever_its_type_and_keys(item: dict[str, object]) -> None:
    assert history_of(b.line("response_item", item)) == [item]
    assert history_of(b.bare_item(item)) == [item]
    assert history_of(b.compacted([item])) == [item]


def test_an_instruction_from_another_agent_is_shown_as_an_agent_message() -> None:
    shown = {"type": "agent_message", "author": "/root", "recipient": "/root/b"}
    part = {"type": "input_text", "text": "do"}
    assert history_of(b.inter_agent("do", recipient="/root/b", id="i", other_recipients=["/root/c"])) == [
        {**shown, "content": [part]}
    ]
    assert history_of(b.inter_agent("do", recipient="/root/b", trigger_turn=False)) == [{**shown, "content": [part]}]


@pytest.mark.parametrize(("triggers", "kind"), [(True, "NEW_TASK"), (False, "MESSAGE")])
def test_an_encrypted_instruction_says_whose_it_is_in_the_clear(triggers: bool, kind: str) -> None:
    head = f"Message Type: {kind}\nTask name: /root/b\nSender: /root/a\nPayload:\n"
    names = {"author": "/root/a", "recipient": "/root/b"}
    content = [
        {"type": "input_text", "text": head},
        {"type": "encrypted_content", "encrypted_content": "gAAA"},
    ]
    line = b.inter_agent("", **names, trigger_turn=triggers, encrypted_content="gAAA")
    assert history_of(line) == [{"type": "agent_message", **names, "content": content}]


@pytest.mark.parametrize("key", ["author", "recipient", "content", "trigger_turn"])
@pytest.mark.parametrize("without", [{}, {"encrypted_content": "gAAA"}])
def test_an_instruction_that_lacks_a_key_has_no_effect_and_is_reported(key: str, without: dict[str, str]) -> None:
    whole = {"author": "/root", "recipient": "/root/a", "content": "do", "trigger_turn": True, **without}
    for bad in ({k: v for k, v in whole.items() if k != key}, {**whole, key: None}, {**whole, key: 7}):
        data = b.log(b.user("q"), b.line("inter_agent_communication", bad), b.assistant("a"), b.rolled_back(1))
        assert list(rollout.reconstruct(data).history) == []
        assert [(note.line, note.kind) for note in rollout.verify(data).notes] == [(2, "malformed")]
        assert [line.status for line in rollout.explain(data)][1] == "damaged"


# Compactions


def test_a_replacement_history_is_the_history_an_empty_one_too() -> None:
    assert history_of(b.user("q1"), b.compacted([b.user_item("s")]), b.user("q2")) == [
        b.user_item("s"),
        b.user_item("q2"),
    ]
    assert history_of(b.user("q1"), b.compacted([])) == []


@pytest.mark.parametrize("bad", [None, 7, "text", [], {}, {"type": 7}, {"role": "user"}, {"type": "x", "role": 7}])
def test_a_malformed_item_costs_itself_and_not_the_compaction(bad: object) -> None:
    kept = [b.user_item("one"), b.user_item("two")]
    assert history_of(b.user("old"), b.compacted([kept[0], bad, kept[1]])) == kept


@pytest.mark.parametrize("replacement", [7, "x", {}, True])
def test_a_replacement_history_of_another_type_has_no_effect(replacement: object) -> None:
    line = b.line("compacted", {"message": "S", "replacement_history": replacement})
    assert history_of(b.user("q"), line) == [b.user_item("q")]


def test_the_items_of_a_compaction_do_not_pin_a_line_that_is_mostly_something_else() -> None:
    line = b.compacted([b.user_item("s")], filler="x" * 100_000)
    (entry,) = CODEX.compaction_of(line).items or []
    assert isinstance(entry, Raw)
    assert bytes(entry) == b.dump(b.user_item("s"))
    assert memoryview(memoryview(entry).obj).nbytes < 1000


@pytest.mark.parametrize("replacement", [{}, {"replacement_history": None}])
def test_an_old_compaction_leaves_the_users_texts_and_its_message(replacement: dict[str, object]) -> None:
    lines = b.user("q1"), b.assistant("a1"), b.call(), b.output(), b.user("q2", "more")
    assert texts_of(*lines, b.legacy_compacted("S", **replacement)) == [["q1"], ["q2", "more"], ["S"]]


def test_what_an_old_compaction_leaves_is_user_messages_of_plain_text() -> None:
    line = content([{"type": "other_text", "text": "q", "extra": 1}, {"type": "input_image", "image_url": "u"}])
    assert history_of(line, b.legacy_compacted("S")) == [b.user_item("q"), b.user_item("S")]


def test_an_old_compaction_without_a_message_says_that_there_is_no_summary() -> None:
    assert texts_of(b.legacy_compacted("")) == [[NO_SUMMARY]]


def test_an_old_compaction_drops_what_the_program_and_other_agents_wrote() -> None:
    lines = b.contextual(), b.permissions(), b.agent_message("do"), b.inter_agent("do"), b.user("q")
    assert texts_of(*lines, b.legacy_compacted("S")) == [["q"], ["S"]]


def test_an_old_compaction_keeps_the_users_texts_of_a_replacement_history_and_of_one_before_it() -> None:
    replaced = b.compacted([b.user_item("kept"), b.assistant_item("dropped"), b.user_item("<skill>x</skill>")])
    assert texts_of(replaced, b.user("q"), b.legacy_compacted("S1"), b.legacy_compacted("S2")) == [
        ["kept"],
        ["q"],
        ["S1"],
        ["S2"],
    ]


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ([], []),
        ([IMAGE], [""]),
        ([said("a"), IMAGE, said("b"), {"type": "not_known_yet"}], ["a", "b"]),
        ([said("<image>"), IMAGE, said("</image>"), said("look")], ["look"]),
        ([said("<image name=[Image #1]>"), IMAGE, said("</image>"), said("look")], ["look"]),
        ([said('<image name=[Image #1] path="/a.png">'), IMAGE, said("</image>")], [""]),
        ([said("<image>")], ["<image>"]),  # what a person typed
        ([said("<image>look"), said(" <image>"), said("<IMAGE>")], ["<image>look", " <image>", "<IMAGE>"]),
    ],
)
def test_content_of_any_shape_is_kept_as_its_texts(value: object, parts: list[str]) -> None:
    assert texts_of(content(value), b.legacy_compacted("S")) == [parts, ["S"]]


SUMMARY = (
    "Another language model started to solve this problem and produced a summary of its thinking process. You also have"
    " access to the state of the tools that were used by that language model."
)


@pytest.mark.parametrize(
    "left_out",
    [
        b.contextual(),
        b.contextual("goal_context"),
        b.user("Warning: apply_patch was requested via shell. Use the apply_patch tool instead of exec_command."),
        b.user(SUMMARY + "\nwe fixed it"),
        b.user(SUMMARY, "we fixed it"),
        b.agent_message("do"),
        b.inter_agent("do"),
        b.developer("be brief"),
        b.assistant("a"),
    ],
)
def test_an_old_compaction_leaves_out_what_no_person_wrote(left_out: bytes) -> None:
    assert texts_of(b.user("q1"), left_out, b.user("q2"), b.legacy_compacted("S")) == [["q1"], ["q2"], ["S"]]


def test_an_old_compaction_leaves_out_the_summary_of_the_one_before() -> None:
    assert texts_of(b.user("q1"), b.legacy_compacted(SUMMARY), b.user("q2"), b.legacy_compacted("")) == [
        ["q1"],
        ["q2"],
        ["(no summary available)"],
    ]


def test_what_an_old_compaction_leaves_out_costs_nothing_of_its_budget() -> None:
    long = "x" * 79_996
    image = b.line("response_item", {**b.user_item(), "content": [said("<image>"), IMAGE, said("yyyy")]})
    assert texts_of(b.user(long), b.user(SUMMARY * 500), image, b.legacy_compacted("S")) == [[long], ["yyyy"], ["S"]]


# The budget of an old compaction: 20,000 tokens of 4 bytes, newest first


def kept_of(*texts: Sequence[str]) -> list[list[str]]:
    """What stays of user messages with these texts."""
    found = texts_of(*(b.user(*parts) for parts in texts), b.legacy_compacted("S"))
    assert found.pop() == ["S"]
    return found


def test_texts_that_just_fit_the_budget_stay_whole() -> None:
    assert kept_of(["x" * 40_000], ["y" * 40_000]) == [["x" * 40_000], ["y" * 40_000]]
    assert kept_of(["x" * 80_000]) == [["x" * 80_000]]


def test_one_message_that_does_not_fit_is_cut_over_all_its_parts() -> None:
    assert kept_of(["head", "x" * 90_000]) == [
        ["head", "x" * 39_996, "…2501 tokens truncated…", "x" * 40_000],
    ]


def test_of_two_messages_the_older_gets_what_the_newer_leaves() -> None:
    assert kept_of(["a" * 50_000], ["b" * 50_001]) == [
        ["a" * 14_998, "…5001 tokens truncated…", "a" * 14_998],
        ["b" * 50_001],
    ]


def test_a_cut_inside_a_character_keeps_whole_characters_and_counts_budgeted_bytes() -> None:
    assert kept_of(["é" * 30_000], ["b" * 50_003]) == [
        ["é" * 7499, "…7501 tokens truncated…", "é" * 7499],
        ["b" * 50_003],
    ]


def test_nothing_older_than_the_message_that_was_cut_is_kept() -> None:
    assert kept_of(["tiny"], ["a" * 50_000], ["b" * 50_000])[0] != ["tiny"]
    assert kept_of(["tiny"], ["b" * 80_000]) == [["b" * 80_000]]


def test_a_message_of_no_bytes_costs_nothing_and_one_of_a_byte_a_token() -> None:
    assert kept_of(["a"], [""], ["b" * 79_996]) == [["a"], [""], ["b" * 79_996]]
    assert kept_of(["a"], ["c"], ["b" * 79_996]) == [["c"], ["b" * 79_996]]


def test_a_place_whose_item_was_not_kept_is_passed_over() -> None:
    def compacted(*entries: Entry | None) -> list[Entry]:
        folded = Folded(CODEX.user_texts)
        folded.add(entries)
        folded.compact("S")
        return list(folded)

    assert compacted(None, b.user("q"), None) == compacted(b.user("q"))


# items_removed


@pytest.mark.parametrize(("count", "left"), [(0, 3), (1, 2), (3, 0), (4, 0), (2**70, 0)])
def test_items_removed_takes_the_newest_items_of_the_history_as_it_stands(count: int, left: int) -> None:
    items = [b.user_item("q1"), b.assistant_item("a1"), b.user_item("q2")]
    lines = b.user("q1"), b.assistant("a1"), b.item("ghost_snapshot"), b.user("q2"), b.items_removed(count)
    assert history_of(*lines) == items[:left]
    assert history_of(b.user("older"), b.compacted(items), b.items_removed(count)) == items[:left]


def test_items_removed_and_then_added_again_are_the_new_ones() -> None:
    lines = b.user("q1"), b.assistant("a1"), b.items_removed(1), b.assistant("a2"), b.items_removed(1)
    assert history_of(*lines, b.assistant("a3")) == [b.user_item("q1"), b.assistant_item("a3")]


@pytest.mark.parametrize("count", [-1, True, 1.0, "1", None])
def test_a_count_that_is_no_unsigned_integer_removes_nothing(count: object) -> None:
    assert history_of(b.user("q"), b.items_removed(count)) == [b.user_item("q")]
    assert history_of(b.user("q"), b.rolled_back(count)) == [b.user_item("q")]
