"""S6: a history made sendable, as the real program sends it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.dialects.codex.prompt import make_prompt
from rollout.items.truncation import Truncation
from tests import builders as b

Item = dict[str, Any]

CALL: Item = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
SHELL: Item = {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec"}}
CUSTOM: Item = {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "x"}
SEARCH: Item = {"type": "tool_search_call", "call_id": "c1", "execution": "client"}
OUTPUT: Item = {"type": "function_call_output", "call_id": "c1", "output": "out"}
CUSTOM_OUTPUT: Item = {"type": "custom_tool_call_output", "call_id": "c1", "output": "out"}
FOUND: Item = {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": [{"name": "t"}]}
QUESTION, ANSWER = b.user_item("q"), b.assistant_item("a")
NO_IMAGE = {
    "type": "input_text",
    "text": "image content omitted because you do not support image input",
}
IMAGE = {"type": "input_image", "image_url": b.PICTURE}


def output(value: object, kind: str = "function_call_output") -> Item:
    return {"type": kind, "call_id": "c1", "output": value}


# Calls and their outputs


@pytest.mark.parametrize(
    ("call", "aborted"),
    [
        (CALL, {"type": "function_call_output", "call_id": "c1", "output": "aborted"}),
        (SHELL, {"type": "function_call_output", "call_id": "c1", "output": "aborted"}),
        (CUSTOM, {"type": "custom_tool_call_output", "call_id": "c1", "output": "aborted"}),
        (
            SEARCH,
            {"type": "tool_search_output", "call_id": "c1", "status": "completed", "execution": "client", "tools": []},
        ),
    ],
)
def test_a_call_without_its_output_gets_one_right_behind_it(call: Item, aborted: Item) -> None:
    assert make_prompt([QUESTION, call, ANSWER]) == [QUESTION, call, aborted, ANSWER]


@pytest.mark.parametrize(("call", "own"), [(CALL, OUTPUT), (SHELL, OUTPUT), (CUSTOM, CUSTOM_OUTPUT), (SEARCH, FOUND)])
def test_a_call_with_its_output_stays_as_it_is_in_any_order(call: Item, own: Item) -> None:
    assert make_prompt([call, ANSWER, own]) == [call, ANSWER, own]
    assert make_prompt([own, QUESTION, call]) == [own, QUESTION, call]


@pytest.mark.parametrize(
    ("call", "foreign"), [(CUSTOM, OUTPUT), (CALL, CUSTOM_OUTPUT), (SEARCH, OUTPUT), (CALL, FOUND)]
)
def test_an_output_of_another_kind_does_not_serve_a_call(call: Item, foreign: Item) -> None:
    sent = make_prompt([call, foreign])
    assert foreign not in sent
    assert sent == make_prompt([call])
    assert len(sent) == 2


@pytest.mark.parametrize("lone", [OUTPUT, CUSTOM_OUTPUT, FOUND, {**OUTPUT, "call_id": None}, {**OUTPUT, "call_id": 7}])
def test_an_output_without_its_call_goes(lone: Item) -> None:
    assert make_prompt([QUESTION, lone, ANSWER]) == [QUESTION, ANSWER]


@pytest.mark.parametrize("call_id", ["c1", None])
def test_what_a_server_found_by_itself_stays_without_a_call(call_id: str | None) -> None:
    found = {**FOUND, "execution": "server", "call_id": call_id}
    assert make_prompt([found]) == [found]


def test_calls_are_told_apart_by_their_ids() -> None:
    second = {**CALL, "call_id": "c2"}
    aborted = {"type": "function_call_output", "call_id": "c2", "output": "aborted"}
    assert make_prompt([CALL, second, OUTPUT]) == [CALL, second, aborted, OUTPUT]


def test_an_early_shell_call_is_known_by_its_own_id() -> None:
    early: Item = {"type": "local_shell_call", "id": "c1", "call_id": None, "action": {}}
    assert make_prompt([early, OUTPUT]) == [early, OUTPUT]


# Keys and items that only programs read


@pytest.mark.parametrize("key", ["metadata", "internal_chat_message_metadata_passthrough"])
def test_keys_that_only_programs_read_go(key: str) -> None:
    assert make_prompt([{**QUESTION, key: {"a": 1}}, {**CALL, key: None}, OUTPUT]) == [QUESTION, CALL, OUTPUT]


@pytest.mark.parametrize("kind", ["ghost_snapshot", "compaction_trigger", "other"])
def test_items_that_only_programs_read_go(kind: str) -> None:
    assert make_prompt([QUESTION, {"type": kind, "call_id": "c1"}]) == [QUESTION]


def test_unknown_items_and_keys_are_sent_as_they_are() -> None:
    unknown = {"type": "not_known_yet", "deep": {"metadata": 1}, "call_id": "c9"}
    assert make_prompt([unknown]) == [unknown]


# Images


def test_where_the_model_reads_text_only_a_short_text_stands_in_for_an_image() -> None:
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "see"}, IMAGE]}
    seen = [output([IMAGE, {"type": "input_text", "text": "t"}]), message]
    sent = make_prompt([CALL, *seen], images=False)
    assert sent[1]["output"] == [NO_IMAGE, {"type": "input_text", "text": "t"}]
    assert sent[2]["content"] == [{"type": "input_text", "text": "see"}, NO_IMAGE]


def test_a_generated_image_loses_its_bytes_where_the_model_reads_text_only() -> None:
    call = {"type": "image_generation_call", "id": "i", "status": "completed", "result": "AAAA"}
    assert make_prompt([call], images=False) == [{**call, "result": ""}]
    assert make_prompt([call]) == [call]


def test_images_stay_where_the_model_reads_them() -> None:
    message = {"type": "message", "role": "user", "content": [IMAGE]}
    assert make_prompt([message]) == [message]


# Long outputs


@pytest.mark.parametrize(("call", "kind"), [(CALL, "function_call_output"), (CUSTOM, "custom_tool_call_output")])
def test_a_long_tool_output_is_cut_in_the_middle_and_says_what_is_missing(call: Item, kind: str) -> None:
    sent = make_prompt([call, output("x" * 50_000, kind)], truncation=Truncation("bytes", 12_000))
    assert sent[1] == output("x" * 6000 + "…38000 chars truncated…" + "x" * 6000, kind)


def test_in_tokens_the_output_says_how_many_tokens_are_missing() -> None:
    sent = make_prompt([CALL, output("x" * 50_001)], truncation=Truncation("tokens", 3000))
    assert sent[1]["output"] == "x" * 6000 + "…9501 tokens truncated…" + "x" * 6000


def test_the_texts_of_one_output_share_its_budget_and_those_left_out_are_counted() -> None:
    parts = [{"type": "input_text", "text": "x" * n} for n in (6, 10, 5, 5)]
    sent = make_prompt([CALL, output([*parts[:2], IMAGE, *parts[2:]])], truncation=Truncation("bytes", 10))
    assert sent[1]["output"] == [
        parts[0],
        {"type": "input_text", "text": "xx…6 chars truncated…xx"},
        IMAGE,
        {"type": "input_text", "text": "[omitted 2 text items ...]"},
    ]


@pytest.mark.parametrize("value", ["short", [{"type": "input_text", "text": "short"}], None, {"odd": 1}])
def test_an_output_that_fits_or_has_no_text_is_left_alone(value: object) -> None:
    assert make_prompt([CALL, output(value)], truncation=Truncation("bytes", 5))[1] == output(value)


def test_nothing_but_tool_outputs_is_cut() -> None:
    long = [b.user_item("x" * 100), b.assistant_item("x" * 100), {**CALL, "arguments": "x" * 100}, OUTPUT]
    assert make_prompt(long, truncation=Truncation("bytes", 3)) == long


# Fresh context


def test_fresh_developer_messages_stand_where_the_first_old_one_stood() -> None:
    old = [b.text_item("developer", f"<{tag}>old") for tag in ("permissions instructions", "model_switch")]
    own, fresh = b.text_item("developer", "of a person"), [b.text_item("developer", "<permissions instructions>new")]
    assert make_prompt([QUESTION, old[0], own, old[1], ANSWER], fresh_context=fresh) == [QUESTION, *fresh, own, ANSWER]
    assert make_prompt([QUESTION, ANSWER], fresh_context=fresh) == [*fresh, QUESTION, ANSWER]
    assert make_prompt([old[0], QUESTION], fresh_context=[]) == [QUESTION]
    assert make_prompt([old[0], QUESTION]) == [old[0], QUESTION]


# Any history

call_ids = st.sampled_from(["c1", "c2", None])
items = st.builds(
    lambda item, call_id: {**item, "call_id": call_id} if "call_id" in item else dict(item),
    st.sampled_from([CALL, SHELL, CUSTOM, SEARCH, OUTPUT, CUSTOM_OUTPUT, FOUND, QUESTION, ANSWER]),
    call_ids,
)
KIND_OF_OUTPUT = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}


@given(st.lists(items, max_size=8))
def test_in_any_prompt_each_call_has_an_output_and_each_output_a_call(history: list[Item]) -> None:
    before = copy.deepcopy(history)
    sent = make_prompt(history)
    assert history == before
    calls = {(KIND_OF_OUTPUT[item["type"]], item["call_id"]) for item in sent if item["type"] in KIND_OF_OUTPUT}
    outputs = {
        (item["type"], item["call_id"])
        for item in sent
        if item["type"] in KIND_OF_OUTPUT.values() and (item["type"], item["call_id"]) != ("tool_search_output", None)
    }
    assert outputs == {(kind, call_id) for kind, call_id in calls if call_id is not None}
    assert [item for item in sent if item in history] == [item for item in history if item in sent]
    assert make_prompt(sent) == sent


def test_what_a_framework_has_wrapped_is_sent_as_it_was_or_not_at_all() -> None:
    said = {"role": "system", "content": "be brief"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    wrapped = [{"type": "session_item", "item": inner} for inner in (said, call, 5, {"type": "other"}, {"x": 1})]
    assert make_prompt(wrapped) == [
        {"type": "message", **said},
        call,
        {"type": "function_call_output", "call_id": "c", "output": "aborted"},
    ]
