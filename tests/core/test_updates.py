"""S8: what a model is told before a turn."""

from __future__ import annotations

from typing import Any

import pytest

from rollout.dialects.codex.contextual import context_updates, is_contextual
from rollout.items.kinds import Item

SETTINGS: dict[str, Any] = {
    "cwd": "/p",
    "shell": "bash",
    "current_date": "2026-03-20",
    "timezone": "Etc/UTC",
    "approval_policy": "never",
    "sandbox_policy": {"type": "workspace-write", "writable_roots": ["/q"], "network_access": True},
    "model": "m1",
    "personality": "pragmatic",
    "collaboration_mode": {"mode": "plan", "settings": {"model": "m1", "developer_instructions": "Plan first."}},
    "network": {"allowed_domains": ["a.example", "b.example"], "denied_domains": ["c.example"]},
    "user_instructions": "Be brief.",
    "developer_instructions": "Use tools.",
    "realtime_active": True,
}


def texts(item: Item) -> list[str]:
    return [part["text"] for part in item["content"]]


def told(reference: dict[str, Any] | None, settings: dict[str, Any], **keys: Any) -> dict[str, list[str]]:
    """The texts by role, of messages that are all the program's own (S5)."""
    items = context_updates(reference, settings, **keys)
    assert all(is_contextual(item["role"], texts(item)) for item in items)
    assert [item["role"] for item in items] in ([], ["developer"], ["user"], ["developer", "user"])
    return {item["role"]: texts(item) for item in items}


def test_without_a_reference_the_whole_context_is_told_in_two_messages() -> None:
    found = told(None, SETTINGS, previous_model="m0", model_instructions="You are m1.")
    switch, permissions, own, mode, realtime, personality = found["developer"]
    assert switch.startswith("<model_switch>\n")
    assert "You are m1." in switch
    assert permissions.startswith("<permissions instructions>\n")
    assert "`approval_policy` is `never`" in permissions
    assert "`sandbox_mode` is `workspace-write`" in permissions
    assert "Network access is enabled." in permissions
    assert "`/q`" in permissions
    assert own == "Use tools."
    assert mode == "<collaboration_mode>Plan first.</collaboration_mode>"
    assert realtime.startswith("<realtime_conversation>")
    assert "pragmatic" in personality
    agents, environment = found["user"]
    assert agents == "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"
    assert environment == (
        "<environment_context>\n  <cwd>/p</cwd>\n  <shell>bash</shell>\n  <current_date>2026-03-20</current_date>\n"
        '  <timezone>Etc/UTC</timezone>\n  <network enabled="true">\n    <allowed>a.example</allowed>\n'
        "    <allowed>b.example</allowed>\n    <denied>c.example</denied>\n  </network>\n</environment_context>"
    )


def test_nothing_is_told_when_nothing_has_changed() -> None:
    assert context_updates(SETTINGS, SETTINGS, previous_model="m1") == []
    assert context_updates(SETTINGS, SETTINGS) == []


@pytest.mark.parametrize(
    ("key", "value", "role", "opening", "part"),
    [
        ("approval_policy", "on-request", "developer", "<permissions instructions>", "`on-request`. Ask for"),
        ("approval_policy", {"granular": {"rules": True}}, "developer", "<permissions", '{"granular":{"rules":true}}'),
        ("sandbox_policy", {"type": "read-only"}, "developer", "<permissions instructions>", "`read-only`"),
        ("collaboration_mode", {"mode": "default"}, "developer", "<collaboration_mode>", "`default`"),
        ("personality", "friendly", "developer", "<personality_spec>", "friendly"),
        ("realtime_active", False, "developer", "<realtime_conversation>", "ended"),
        ("cwd", "/q", "user", "<environment_context>", "<cwd>/q</cwd>"),
        ("shell", "zsh", "user", "<environment_context>", "<shell>zsh</shell>"),
        ("timezone", "Asia/Tokyo", "user", "<environment_context>", "<timezone>Asia/Tokyo</timezone>"),
        ("current_date", "2026-03-21", "user", "<environment_context>", "2026-03-21"),
        ("network", {"denied_domains": ["d.example"]}, "user", "<environment_context>", "<denied>d.example</denied>"),
    ],
)
def test_one_change_is_told_in_one_part_of_one_message(
    key: str, value: object, role: str, opening: str, part: str
) -> None:
    found = told(SETTINGS, {**SETTINGS, key: value}, previous_model="m1")
    assert list(found) == [role]
    (text,) = found[role]
    assert text.startswith(opening)
    assert part in text


def test_changes_of_many_things_make_one_message_for_each_role() -> None:
    found = told(SETTINGS, {"model": "m2", "cwd": "/q"}, previous_model="m1")
    assert [text.partition(">")[0] for text in found["developer"]] == [
        "<model_switch",
        "<permissions instructions",
        "<collaboration_mode",
        "<realtime_conversation",
    ]
    assert found["user"] == ["<environment_context>\n  <cwd>/q</cwd>\n</environment_context>"]


def test_another_model_comes_first_and_alone_where_nothing_else_has_changed() -> None:
    settings = {**SETTINGS, "model": "m2", "collaboration_mode": {"mode": "plan", "settings": {"model": "m2"}}}
    reference = {**settings, "model": "m1", "collaboration_mode": {"mode": "plan", "settings": {"model": "m1"}}}
    found = told(reference, settings, previous_model="m1")
    assert [text.partition(">")[0] for text in found["developer"]] == ["<model_switch"]


def test_a_shell_that_the_reference_does_not_tell_of_is_no_change() -> None:
    reference = {key: value for key, value in SETTINGS.items() if key != "shell"}
    assert context_updates(reference, SETTINGS) == []


def test_instructions_of_any_text_are_in_a_message_that_a_reader_knows() -> None:
    found = told(None, {"model": "m1", "developer_instructions": "anything"})
    assert found["developer"][-1] == "anything"


def test_settings_that_tell_nothing_make_no_message() -> None:
    assert context_updates(None, {"model": "m1"}) == []
