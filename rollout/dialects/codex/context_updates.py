"""S8: what the model is to be told before a turn.

At most one developer message and one contextual user message, each with a part for each thing to tell. They are
written ahead of the user's own message, and all of their shapes are in the table of `context` (S5), so that a reader
knows them for the program's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rollout.items.kinds import Item

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
    developer = []
    if previous_model is not None and previous_model != settings.get("model"):
        developer.append(_model_switch(model_instructions))
    if reference is None:
        developer += _initial_developer_parts(settings)
        user = _initial_user_parts(settings)
    else:
        developer += _changed_developer_parts(reference, settings)
        user = [_environment(settings)] if _environment_differs(reference, settings) else []
    return [_message(role, parts) for role, parts in (("developer", developer), ("user", user)) if parts]


def _message(role: str, texts: Sequence[str]) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text} for text in texts]}


def _initial_developer_parts(settings: Mapping[str, Any]) -> list[str]:
    parts = []
    own = settings.get("developer_instructions")
    if own or any(settings.get(key) is not None for key in ("approval_policy", "sandbox_policy")):
        parts.append(_permissions(settings))  # with it, instructions of any text are in a message that S5 knows
    if own:
        parts.append(str(own))
    mode, instructions = _collaboration(settings)
    if instructions or mode not in (None, "default"):
        parts.append(_collaboration_mode(mode, instructions))
    if settings.get("realtime_active"):
        parts.append(_realtime(active=True))
    if settings.get("personality") is not None:
        parts.append(_personality(settings["personality"]))
    return parts


def _changed_developer_parts(reference: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    parts = []
    if _differs(reference, settings, "approval_policy") or _differs(reference, settings, "sandbox_policy"):
        parts.append(_permissions(settings))
    if _collaboration(reference) != _collaboration(settings):
        parts.append(_collaboration_mode(*_collaboration(settings)))
    is_active = bool(settings.get("realtime_active"))
    if is_active is not bool(reference.get("realtime_active")):
        parts.append(_realtime(active=is_active))
    if _differs(reference, settings, "personality") and settings.get("personality") is not None:
        parts.append(_personality(settings["personality"]))
    return parts


def _initial_user_parts(settings: Mapping[str, Any]) -> list[str]:
    parts = []
    if instructions := settings.get("user_instructions"):
        where = f" for {settings['cwd']}" if settings.get("cwd") else ""
        parts.append(f"# AGENTS.md instructions{where}\n\n<INSTRUCTIONS>\n{instructions}\n</INSTRUCTIONS>")
    if any(settings.get(key) is not None for key in (*_ENVIRONMENT, "shell")):
        parts.append(_environment(settings))
    return parts


def _differs(reference: Mapping[str, Any], settings: Mapping[str, Any], key: str) -> bool:
    return bool(reference.get(key) != settings.get(key))


def _environment_differs(reference: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """The shell counts only where the reference tells of one: Codex's never do."""
    if reference.get("shell") is not None and _differs(reference, settings, "shell"):
        return True
    return any(_differs(reference, settings, key) for key in _ENVIRONMENT)


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


def _model_switch(instructions: str | None) -> str:
    told = "The user was previously using a different model. Please continue the conversation"
    told += f" according to the following instructions:\n\n{instructions}" if instructions else "."
    return f"<model_switch>\n{told}\n</model_switch>"


def _permissions(settings: Mapping[str, Any]) -> str:
    lines = [*_sandbox_lines(settings.get("sandbox_policy")), *_approval_lines(settings.get("approval_policy"))]
    told = "\n".join(lines) or "No sandbox and no approval policy are set."
    return f"<permissions instructions>\n{told}\n</permissions instructions>"


def _sandbox_lines(policy: Any) -> list[str]:
    if policy is None:
        return []
    keys = policy if isinstance(policy, Mapping) else {"type": policy}
    kind = keys.get("type", keys.get("mode"))
    meaning = _SANDBOXES.get(kind, "") if isinstance(kind, str) else ""
    lines = [f"`sandbox_mode` is `{_name(kind)}`. {meaning}".rstrip()]
    if "network_access" in keys:
        access = keys["network_access"]
        lines.append(f"Network access is {'enabled' if access in (True, 'enabled') else 'restricted'}.")
    if roots := keys.get("writable_roots"):
        lines.append(f"Writable roots: {', '.join(f'`{_name(root)}`' for root in roots)}.")
    return lines


def _approval_lines(policy: Any) -> list[str]:
    if policy is None:
        return []
    meaning = _APPROVALS.get(policy, "") if isinstance(policy, str) else ""
    return [f"`approval_policy` is `{_name(policy)}`. {meaning}".rstrip()]


def _name(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _collaboration(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The mode and its instructions; the model and the effort that stand beside them are told of elsewhere."""
    mode = settings.get("collaboration_mode")
    if not isinstance(mode, Mapping):
        return mode, None
    own = mode.get("settings")
    return mode.get("mode"), (own.get("developer_instructions") or None) if isinstance(own, Mapping) else None


def _collaboration_mode(mode: Any, instructions: Any) -> str:
    told = instructions or f"The collaboration mode is now `{_name(mode) if mode is not None else 'default'}`."
    return f"<collaboration_mode>{told}</collaboration_mode>"


def _realtime(*, active: bool) -> str:
    told = "A realtime conversation has begun: answers are spoken." if active else "The realtime conversation ended."
    return f"<realtime_conversation>\n{told}\n</realtime_conversation>"


def _personality(personality: Any) -> str:
    told = "The user has requested a new communication style. Future messages should adhere to this personality:"
    return f"<personality_spec>\n{told}\n{_name(personality)}\n</personality_spec>"
