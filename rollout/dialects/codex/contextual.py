"""What the program writes to the model itself: how that is told from what people say (S5), and what it is (S8).

A user message is *contextual* if any text part of it, trimmed and caseless, begins and ends as one of `USER_FRAGMENTS`
or of `TAGS_WITH_ATTRIBUTES`, or begins as one of `USER_OPENINGS`; a developer message if one begins as one of
`DEVELOPER_OPENINGS`. Every other user message is a person's, a user boundary (S1). Caseless is meant of ASCII, and
what is trimmed is Unicode's white space, as Codex does both. This is the one table of that.

What the model is to be told before a turn is at most one developer message and one contextual user message, each with a
part for each thing to tell, ahead of the user's own message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from rollout.format.strict_json import value_at
from rollout.items.kinds import Item, texts_in

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
TAGS_WITH_ATTRIBUTES: tuple[tuple[str, str], ...] = (
    (r"<codex_internal_context source=[^>]*>", "</codex_internal_context>"),
    (r"<hook_prompt[ \t\r\n][^>]*>", "</hook_prompt>"),
)
"""Openings that hold something of their own, as patterns, each with its closing."""
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
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's. Python's own trimming takes four control characters more."""
_FRAGMENTS = (*((re.escape(opening), closing) for opening, closing in USER_FRAGMENTS), *TAGS_WITH_ATTRIBUTES)
_WRITTEN = {
    role: re.compile(rf"[{_WHITE_SPACE}]*(?:{'|'.join(openings)})", re.IGNORECASE | re.ASCII | re.DOTALL)
    for role, openings in {
        "user": [
            *map(re.escape, USER_OPENINGS),
            *(rf"{opening}.*{re.escape(closing)}[{_WHITE_SPACE}]*\Z" for opening, closing in _FRAGMENTS),
        ],
        "developer": map(re.escape, DEVELOPER_OPENINGS),
    }.items()
}
"""By the role of a message, what one of its texts matches if the program wrote it."""
_APPROVALS = {
    "never": "Commands run without asking, and nobody can be asked for more rights.",
    "on-request": "Ask for approval of a command that needs more rights than the sandbox gives.",
    "on-failure": "A command that fails in the sandbox is put to the user for approval.",
    "untrusted": "Commands that are not known to only read need the user's approval.",
}
_SANDBOXES = {
    "danger-full-access": "There is no sandbox: all files can be read and written.",
    "read-only": "Files can be read, not written.",
    "workspace-write": "Files can be read; only those in the working directory and the writable roots can be written.",
    "external-sandbox": "The sandbox is outside of this program's control.",
}
_ENVIRONMENT = ("cwd", "network", "current_date", "timezone")
IMAGE_TAG = re.compile(r"<image(?: name=[^\n]*)?>|</image>")
"""A text part that stands around an image of a user's message."""
SUMMARY_OPENING = "Another language model started to solve this problem and produced a summary of its thinking process."
"""How the message begins, of role user, in which a compaction leaves its summary to the model."""


def is_contextual(role: str, texts: list[str]) -> bool:
    """Whether a message of `role` with these text parts was written by the program."""
    written = _WRITTEN.get(role)
    return written is not None and any(map(written.match, texts))


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


def context_updates(
    reference: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    *,
    previous_model: str | None = None,
    model_instructions: str | None = None,
) -> list[Item]:
    """The messages for a turn with `settings`, when the model was last told of `reference` (S8).

    Both have the keys of a turn_context; `settings` may have `shell` beside them. Without a reference everything is
    told, with one only what differs: [] if nothing does. A `previous_model` that is another than that of the
    settings puts `<model_switch>` first, with the new model's `model_instructions`.
    """
    developer = _developer_parts(reference, settings)
    if previous_model is not None and previous_model != settings.get("model"):
        told = "The user was previously using a different model. Please continue the conversation"
        told += f" according to the following instructions:\n\n{model_instructions}" if model_instructions else "."
        developer.insert(0, f"<model_switch>\n{told}\n</model_switch>")
    return [
        {"type": "message", "role": role, "content": [{"type": "input_text", "text": text} for text in texts]}
        for role, texts in (("developer", developer), ("user", _user_parts(reference, settings)))
        if texts
    ]


def _developer_parts(reference: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> list[str]:
    before = reference or {}
    own = settings.get("developer_instructions") if reference is None else None
    parts = []
    if own or any(before.get(key) != settings.get(key) for key in ("approval_policy", "sandbox_policy")):
        parts.append(_permissions(settings))  # with it, instructions of any text are in a message that S5 knows
    if own:
        parts.append(str(own))
    mode, instructions = _collaboration(settings)
    is_plain = reference is None and mode in (None, "default") and not instructions
    if _collaboration(before) != (mode, instructions) and not is_plain:
        told = instructions or f"The collaboration mode is now `{_name(mode) if mode is not None else 'default'}`."
        parts.append(f"<collaboration_mode>{told}</collaboration_mode>")
    is_active = bool(settings.get("realtime_active"))
    if is_active is not bool(before.get("realtime_active")):
        told = "A realtime conversation has begun: answers are spoken."
        told = told if is_active else "The realtime conversation ended."
        parts.append(f"<realtime_conversation>\n{told}\n</realtime_conversation>")
    personality = settings.get("personality")
    if personality is not None and before.get("personality") != personality:
        told = "The user has requested a new communication style. Future messages should adhere to this personality:"
        parts.append(f"<personality_spec>\n{told}\n{_name(personality)}\n</personality_spec>")
    return parts


def _user_parts(reference: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> list[str]:
    """The shell counts only where the reference tells of one: Codex's never do."""
    before = reference or {}
    parts = []
    if reference is None and (instructions := settings.get("user_instructions")):
        where = f" for {settings['cwd']}" if settings.get("cwd") else ""
        parts.append(f"# AGENTS.md instructions{where}\n\n<INSTRUCTIONS>\n{instructions}\n</INSTRUCTIONS>")
    looked_at = _ENVIRONMENT if reference is not None and before.get("shell") is None else (*_ENVIRONMENT, "shell")
    if any(before.get(key) != settings.get(key) for key in looked_at):
        parts.append(_environment(settings))
    return parts


def _environment(settings: Mapping[str, Any]) -> str:
    lines = [
        f"  <{key}>{settings[key]}</{key}>"
        for key in ("cwd", "shell", "current_date", "timezone")
        if settings.get(key) is not None
    ]
    network = settings.get("network")
    if isinstance(network, Mapping):
        lines.append('  <network enabled="true">')
        for key, tag in (("allowed_domains", "allowed"), ("denied_domains", "denied")):
            lines += [f"    <{tag}>{domain}</{tag}>" for domain in network.get(key) or ()]
        lines.append("  </network>")
    return "\n".join(["<environment_context>", *lines, "</environment_context>"])


def _permissions(settings: Mapping[str, Any]) -> str:
    lines = []
    sandbox, approval = settings.get("sandbox_policy"), settings.get("approval_policy")
    if sandbox is not None:
        keys = sandbox if isinstance(sandbox, Mapping) else {"type": sandbox}
        lines.append(_setting("sandbox_mode", keys.get("type", keys.get("mode")), _SANDBOXES))
        if "network_access" in keys:
            is_open = keys["network_access"] in (True, "enabled")
            lines.append(f"Network access is {'enabled' if is_open else 'restricted'}.")
        if roots := keys.get("writable_roots"):
            lines.append(f"Writable roots: {', '.join(f'`{_name(root)}`' for root in roots)}.")
    if approval is not None:
        lines.append(_setting("approval_policy", approval, _APPROVALS))
    told = "\n".join(lines) or "No sandbox and no approval policy are set."
    return f"<permissions instructions>\n{told}\n</permissions instructions>"


def _setting(name: str, value: Any, meanings: Mapping[str, str]) -> str:
    meaning = meanings.get(value, "") if isinstance(value, str) else ""
    return f"`{name}` is `{_name(value)}`. {meaning}".rstrip()


def _name(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _collaboration(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The mode and its instructions; the model and the effort that stand beside them are told of elsewhere."""
    mode = settings.get("collaboration_mode")
    if not isinstance(mode, Mapping):
        return mode, None
    return mode.get("mode"), value_at(mode, "settings", "developer_instructions") or None
