"""S5: which messages the program wrote itself, by the one table of fragments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.dialects.codex.contextual import DEVELOPER_OPENINGS, USER_FRAGMENTS, is_contextual
from rollout.items.kinds import texts_of
from tests import builders as b
from tests.reference_context import contextual, texts
from tests.strategy_items import ODD_ITEMS

TAGS = (
    *("environment_context", "skill", "user_shell_command", "turn_aborted", "subagent_notification"),
    *("recommended_plugins", "goal_context", "agent_message_board_notification"),
)
FRAGMENTS = [
    ("# AGENTS.md instructions for /p", "</INSTRUCTIONS>"),
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
    *((f"<{tag}>", f"</{tag}>") for tag in TAGS),
    ('<hook_prompt name="a">', "</hook_prompt>"),
    ('<codex_internal_context source="goal">', "</codex_internal_context>"),
    ("<hook_prompt\n>", "</hook_prompt>"),
]


def is_fragment(text: str, role: str = "user") -> bool:
    return is_contextual(role, [text])


@pytest.mark.parametrize(("opening", "closing"), FRAGMENTS)
def test_a_user_message_that_begins_and_ends_as_a_fragment_is_the_programs(opening: str, closing: str) -> None:
    assert is_fragment(f"{opening}text{closing}")
    assert is_fragment(opening + closing)
    assert is_fragment(f" \n\t\u2003{opening}\ntext\n{closing}\r\n ")
    assert is_fragment(f"{opening}text{closing}".upper())
    assert is_fragment(f"{opening}{'text' * 5000}{closing}")


@pytest.mark.parametrize(("opening", "closing"), FRAGMENTS)
def test_a_user_message_that_lacks_one_end_of_a_fragment_is_a_persons(opening: str, closing: str) -> None:
    assert not is_fragment(f"{opening}text")
    assert not is_fragment(f"text{closing}")
    assert not is_fragment(f"x{opening}text{closing}")
    assert not is_fragment(f"{opening}text{closing}x")
    assert not is_fragment(f"{opening}text{closing[:-1]}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "<skill>a</environment_context>",
        "<skills>a</skills>",
        "<hook_prompt>a</hook_prompt>",
        "<hook_prompts name='a'>a</hook_prompt>",
        "<hook_prompt a",
        "# AGENTS.md instructions <skill>",
        "<\u017fkill>a</\u017fkill>",
        "<permissions instructions>a</permissions instructions>",
        "<model_switch>a</model_switch>",
    ],
)
def test_what_only_looks_like_a_fragment_is_a_persons(text: str) -> None:
    assert not is_fragment(text)


@pytest.mark.parametrize("opening", DEVELOPER_OPENINGS)
def test_a_developer_message_needs_only_the_opening(opening: str) -> None:
    assert is_fragment(f"{opening}text", "developer")
    assert is_fragment(f"\n {opening.upper()}", "developer")
    assert not is_fragment(f"x{opening}", "developer")
    assert not is_fragment(opening, "user")


@pytest.mark.parametrize("role", ["assistant", "system", "critic", ""])
def test_a_message_of_another_role_is_never_contextual(role: str) -> None:
    assert not is_fragment("<skill>a</skill>", role)
    assert not is_fragment("<model_switch>", role)


def test_a_user_fragment_in_a_developer_message_is_none() -> None:
    assert not is_fragment("<environment_context>a</environment_context>", "developer")


def test_one_part_that_is_a_fragment_makes_the_whole_message_contextual() -> None:
    assert is_contextual("user", ["q", "<skill>a</skill>", "q"])
    assert not is_contextual("user", ["<skill>", "a", "</skill>"])
    assert not is_contextual("user", [])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], []),
        (None, []),
        ("plain", ["plain"]),
        ("", [""]),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "u"}, {"text": "b"}], ["a", "b"]),
        ([{"text": 7}, {"text": None}, 7, "x", None, {"text": "a"}], ["a"]),
        (7, []),
        ({}, []),
    ],
)
def test_the_texts_of_a_message_are_those_of_the_parts_that_have_one(content: object, expected: list[str]) -> None:
    assert texts_of(b.dump({"type": "message", "role": "user", "content": content})) == expected


def test_a_message_without_content_has_no_texts() -> None:
    assert texts_of(b'{"type":"message","role":"user"}') == []


edges = st.sampled_from([part for fragment in (*FRAGMENTS, *USER_FRAGMENTS) for part in fragment])
crumbs = st.one_of(
    edges, edges.map(str.swapcase), st.sampled_from([" ", "\n", "\u2003", "\x1c", "a", "<", ">", "\u0130"])
)
messages = st.builds(
    lambda role, parts: b.text_item(role, *("".join(part) for part in parts)),
    st.sampled_from(["user", "developer", "assistant"]),
    st.lists(st.lists(crumbs, max_size=5), max_size=3),
)
odd_messages = st.sampled_from([item for item in ODD_ITEMS if item["type"] == "message"])


@given(st.one_of(messages, odd_messages))
def test_any_message_is_judged_as_the_rules_judge_it(message: dict[str, Any]) -> None:
    found = texts_of(b.dump(message))
    assert found == texts(message)
    assert is_contextual(message["role"], found) == contextual(message)
