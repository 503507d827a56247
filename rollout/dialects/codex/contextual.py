"""S5: which messages the program wrote itself. The one table of fragments; whoever wants to know asks here.

A user message is *contextual* if any text part of it, trimmed and caseless, begins and ends as one of `USER_FRAGMENTS`
or of `TAGS_WITH_ATTRIBUTES`, or begins as one of `USER_OPENINGS`; a developer message if one begins as one of
`DEVELOPER_OPENINGS`. Every other user message is a person's, a user boundary (S1). Caseless is meant of ASCII, and
what is trimmed is Unicode's white space, as Codex does both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rollout.items.kinds import texts_in

USER_FRAGMENTS: tuple[tuple[str, str], ...] = (
    ("# agents.md instructions", "</instructions>"),
    *(
        (f"<{tag}>", f"</{tag}>")
        for tag in (
            *("environment_context", "skill", "user_shell_command", "turn_aborted", "subagent_notification"),
            *("recommended_plugins", "goal_context", "agent_message_board_notification"),
        )
    ),
)
TAGS_WITH_ATTRIBUTES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"<codex_internal_context source=[^>]*>"), "</codex_internal_context>"),
    (re.compile(r"<hook_prompt[ \t\r\n][^>]*>"), "</hook_prompt>"),
)
"""Openings that hold something of their own, each with its closing."""
USER_OPENINGS: tuple[str, ...] = (
    "warning: the maximum number of unified exec processes",
    "warning: apply_patch was requested via",
    "warning: your account was flagged for potentially high-risk cyber activity",
)
DEVELOPER_OPENINGS: tuple[str, ...] = (
    *(
        f"<{tag}>"
        for tag in (
            *("permissions instructions", "model_switch", "collaboration_mode", "realtime_conversation"),
            *("personality_spec", "apps_instructions", "context_window", "context_window_guidance"),
            *("environments_instructions", "git_attribution", "managed_developer_instructions", "multi_agent_mode"),
            *("multi_agent_role", "persistent_mode", "plugins_instructions", "rollout_budget", "skills_instructions"),
            *("token_budget", "tools"),
        )
    ),
    "approved command prefix saved:",
)
_SHELL = re.compile(r"\s*<user_shell_command>(?:\s*<command>)?\s*(.*?)\s*</", re.DOTALL)
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""Unicode's. Python's own trimming takes four control characters more."""
_FIRST = frozenset("<#wW" + _WHITE_SPACE)
_EDGE = 128  # longer than any opening or closing
_ASCII_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
IMAGE_TAG = re.compile(r"<image(?: name=[^\n]*)?>|</image>")
"""A text part that stands around an image of a user's message."""
SUMMARY_OPENING = "Another language model started to solve this problem and produced a summary of its thinking process."
"""How the message begins, of role user, in which a compaction leaves its summary to the model."""


def is_contextual(role: str, texts: list[str]) -> bool:
    """Whether a message of `role` with these text parts was written by the program."""
    if role == "user":
        return any(_is_user_fragment(text) for text in texts)
    return role == "developer" and any(_opening(text).startswith(DEVELOPER_OPENINGS) for text in texts)


def is_program_message(item: Mapping[str, Any]) -> bool:
    """Whether an item is a message that the program wrote itself, not a person (S5).

    Of role user (the project's instructions, the environment, what a hook said, …) or developer (permissions, …).
    """
    type, role = item.get("type"), item.get("role")
    return type == "message" and isinstance(role, str) and is_contextual(role, texts_in(item.get("content")))


def shell_command_of(item: Mapping[str, Any]) -> str | None:
    """The command that a person ran by hand, if the program tells that in this item."""
    found = _SHELL.match("\n".join(texts_in(item.get("content"))))
    return None if found is None else found[1]


def _opening(text: str) -> str:
    begin = text[:_EDGE]
    if begin[:1] in _WHITE_SPACE:  # true of an empty text, too
        begin = text.lstrip(_WHITE_SPACE)[:_EDGE]
    return begin.translate(_ASCII_SMALL)


def _is_user_fragment(text: str) -> bool:
    if text[:1] not in _FIRST:
        return False
    head = _opening(text)
    if head.startswith(USER_OPENINGS):
        return True
    trimmed = text.strip(_WHITE_SPACE)
    tail = trimmed[-_EDGE:].translate(_ASCII_SMALL)
    if any(head.startswith(opening) and tail.endswith(closing) for opening, closing in USER_FRAGMENTS):
        return True
    return any(
        tail.endswith(closing)
        and (found := opening.match(trimmed.translate(_ASCII_SMALL))) is not None
        and found.end() + len(closing) <= len(trimmed)
        for opening, closing in TAGS_WITH_ATTRIBUTES
    )


def begins_as_summary(text: str) -> bool:
    """Whether a user's text is, by its beginning, the summary that a compaction has left."""
    return text[:4096].lstrip().startswith(SUMMARY_OPENING)


def is_summary(item: Mapping[str, Any], message: str | None = None) -> bool:
    """Whether an item of role user is a compaction's summary, and nobody's own words.

    It begins as such summaries do, or says the same as the `message` of the compaction that it comes from.
    """
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    own = texts_in(item.get("content"))
    return (bool(message) and "\n".join(own) == message) or any(map(begins_as_summary, own))
