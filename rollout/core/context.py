"""S5: which messages the program wrote itself. The one table of fragments.

A user message is *contextual* if any text part of it, trimmed and caseless, begins and ends as one of `USER_FRAGMENTS`;
a developer message if one begins as one of `DEVELOPER_OPENINGS`. Every other user message is a user boundary (S1).
"""

from __future__ import annotations

import msgspec

from rollout.core import records as r
from rollout.core.codec import decode_value

USER_FRAGMENTS: tuple[tuple[str, str], ...] = (
    ("# agents.md instructions", "</instructions>"),
    *(
        (f"<{tag}>", f"</{tag}>")
        for tag in (
            "environment_context",
            "skill",
            "user_shell_command",
            "turn_aborted",
            "subagent_notification",
            "user_instructions",
        )
    ),
)
DEVELOPER_OPENINGS: tuple[str, ...] = (
    "<permissions instructions>",
    "<model_switch>",
    "<collaboration_mode>",
    "<realtime_conversation>",
    "<personality_spec>",
)
SUMMARY_OPENING = "Another language model started to solve this problem and produced a summary of its thinking process."
"""How the message begins, of role user, in which a compaction leaves its summary to the model."""
_HOOK_OPENING, _HOOK_CLOSING = "<hook_prompt", "</hook_prompt>"
_EDGE = 64  # longer than any opening or closing

_message = msgspec.json.Decoder(r.Message)


def is_contextual(role: str, texts: list[str]) -> bool:
    """Whether a message of `role` with these text parts was written by the program."""
    if role == "user":
        return any(_is_user_fragment(text) for text in texts)
    return role == "developer" and any(_opening(text).startswith(DEVELOPER_OPENINGS) for text in texts)


def _opening(text: str) -> str:
    return text[:4096].lstrip()[:_EDGE].lower() if text[:1].isspace() else text[:_EDGE].lower()


def _is_user_fragment(text: str) -> bool:
    begin = text[:1]
    if begin not in "<#" and not begin.isspace():
        return False
    trimmed = text.strip()
    head, tail = trimmed[:_EDGE].lower(), trimmed[-_EDGE:].lower()
    if any(head.startswith(opening) and tail.endswith(closing) for opening, closing in USER_FRAGMENTS):
        return True
    after = head[len(_HOOK_OPENING) : len(_HOOK_OPENING) + 1]
    return head.startswith(_HOOK_OPENING) and after.isspace() and tail.endswith(_HOOK_CLOSING)


def texts_of(item: bytes | msgspec.Raw) -> list[str] | None:
    """The text parts of a message item; None if its content has another shape than format.md tells of."""
    try:
        content = _message.decode(item).content
    except msgspec.ValidationError:
        return _odd_texts(item)
    if content is None:
        return []
    return [content] if isinstance(content, str) else [part.text for part in content if part.text is not None]


def _odd_texts(item: bytes | msgspec.Raw) -> list[str] | None:
    content = decode_value(item).get("content")
    if not isinstance(content, list):
        return None
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]
