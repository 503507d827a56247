"""S5 for the slow reference: which messages the program wrote. It knows nothing of the engine."""

from __future__ import annotations

import re
from typing import Any

Object = dict[str, Any]

# S5. Each opening and each text as it looks in small letters.
USER_TAGS = (
    "environment_context skill user_shell_command turn_aborted subagent_notification recommended_plugins goal_context"
    " agent_message_board_notification"
).split()
USER_FRAGMENTS = [("# agents.md instructions", "</instructions>"), *((f"<{tag}>", f"</{tag}>") for tag in USER_TAGS)]
USER_OPENINGS = (
    "warning: the maximum number of unified exec processes",
    "warning: apply_patch was requested via",
    "warning: your account was flagged for potentially high-risk cyber activity",
)
DEVELOPER_TAGS = [
    "permissions instructions",
    "model_switch",
    "collaboration_mode",
    "realtime_conversation",
    "personality_spec",
    "apps_instructions",
    "context_window",
    "context_window_guidance",
    "environments_instructions",
    "git_attribution",
    "managed_developer_instructions",
    "multi_agent_mode",
    "multi_agent_role",
    "persistent_mode",
    "plugins_instructions",
    "rollout_budget",
    "skills_instructions",
    "token_budget",
    "tools",
]
DEVELOPER_OPENINGS = (*(f"<{tag}>" for tag in DEVELOPER_TAGS), "approved command prefix saved:")
# The two tags that have attributes.
USER_TAGS_WITH_MORE = (
    r"<codex_internal_context source=[^>]*>.*</codex_internal_context>",
    r"<hook_prompt[\t\n\r ][^>]*>.*</hook_prompt>",
)
# What is blank, as Unicode has it: Python's strip() also takes the four separators that end the ASCII control codes.
BLANK = "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def texts(item: Object) -> list[str]:
    content = item.get("content")
    if isinstance(content, str):  # some programs write a plain string: one part
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def contextual(item: Object) -> bool:
    """S5."""
    if item["type"] != "message":
        return False
    trimmed = [lower_ascii(text.strip(BLANK)) for text in texts(item)]
    if item.get("role") == "developer":
        return any(text.startswith(DEVELOPER_OPENINGS) for text in trimmed)
    return item.get("role") == "user" and any(is_user_fragment(text) for text in trimmed)


def is_user_fragment(text: str) -> bool:
    if any(text.startswith(opening) and text.endswith(closing) for opening, closing in USER_FRAGMENTS):
        return True
    return text.startswith(USER_OPENINGS) or any(re.fullmatch(tag, text, re.DOTALL) for tag in USER_TAGS_WITH_MORE)


def lower_ascii(text: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in text)
