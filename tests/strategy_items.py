"""The items and texts that random logs are made of: whole, odd and bent ones, and the edges of S5's table."""

from __future__ import annotations

from typing import Any

FRAGMENTS = (
    ("user", "<environment_context>", "</environment_context>"),
    ("user", " <Skill>", "</SKILL>\n"),
    ("user", "# AGENTS.md instructions for /p\n", "</INSTRUCTIONS>"),
    ("user", "<turn_aborted>", "</turn_aborted>"),
    ("user", "<hook_prompt name='a'>", "</hook_prompt>"),
    ("user", '\x85<codex_internal_context source="goal">', "</codex_internal_context>\u3000"),
    ("user", "<recommended_plugins>", "</recommended_plugins>"),
    ("user", "<goal_context>", "</GOAL_context>"),
    ("user", "<agent_message_board_notification>", "</agent_message_board_notification>"),
    ("user", "Warning: The maximum number of unified exec processes", ""),
    ("user", "\nwarning: apply_patch was requested via", ""),
    ("user", "Warning: Your account was flagged for potentially high-risk cyber activity", "\n"),
    ("developer", "<permissions instructions>", ""),
    ("developer", "\n<MODEL_SWITCH>", ""),
    *(("developer", f"<{tag}>", f"</{tag}>") for tag in ("apps_instructions", "tools", "multi_agent_role")),
    ("developer", " approved command prefix SAVED:", ""),
)
NEARLY_FRAGMENTS = (
    ("user", "<environment_context>", "</environment_contex>"),
    ("user", "<hook_prompted>", "</hook_prompt>"),
    ("user", "x<skill>", "</skill>"),
    ("user", "<\u017fkill>", "</skill>"),  # caseless in ASCII only: this is a long s
    ("user", "<s\u212aill>", "</skill>"),  # and this the sign for kelvin, a k in small letters
    ("user", "\x1f<skill>", "</skill>"),  # blank to Python, not to Unicode
    ("user", "<skill>", ""),
    ("user", "", "</skill>"),
    ("user", "<user_instructions>", "</user_instructions>"),
    ("user", "<div>why ", "</div>"),
    ("user", "<hook_prompt ", "</hook_prompt>"),
    ("user", "<codex_internal_context>", "</codex_internal_context>"),
    ("user", "<permissions instructions>", "</permissions instructions>"),
    ("user", "Warning: the disk is full ", ""),
    ("developer", "<skill>", "</skill>"),
    ("developer", "x<tools>", "</tools>"),
    ("developer", "<environment_context>", "</environment_context>"),
)
TEXT = {"type": "input_text", "text": "t"}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
ENCRYPTED = {"type": "encrypted_content", "encrypted_content": "e"}
NEW_PART = {"type": "not_known_yet", "text": 7}
PICTURE_TAGS = ({"type": "input_text", "text": "<image name=[Image #1]>"}, {"type": "input_text", "text": "</image>"})
SUMMARY = "Another language model started to solve this problem and produced a summary of its thinking process.\nS"
NEW_RECORDS = ("inter_agent_communication_metadata", "dynamic_tools_updated", "realtime_item", "security_risk_score")
INVISIBLE: list[Any] = [
    {"type": "message", "role": "system", "content": []},
    {"type": "message", "content": "no role"},
    {"type": "message", "role": None},
    *({"type": kind} for kind in ("ghost_snapshot", "compaction_trigger", "other")),
]
ODD_ITEMS: list[Any] = [
    {"type": "message", "role": "user", "content": "plain"},
    {"type": "message", "role": "user", "content": "<skill>plain</skill>"},
    {"type": "message", "role": "user", "content": []},
    {"type": "message", "role": "user"},
    {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:"}]},
    {"type": "message", "role": "user", "content": [7, {"text": "a"}, {"text": None}, {"text": "b", "z": 1}]},
    {"type": "message", "role": "user", "content": [PICTURE_TAGS[0], IMAGE, PICTURE_TAGS[1], TEXT, NEW_PART]},
    {"type": "message", "role": "user", "content": [PICTURE_TAGS[0]]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": SUMMARY}]},
    {"type": "message", "role": "critic", "content": [TEXT]},
    {"type": "not_known_yet", "role": "user", "deep": {"n": [1, 2.5, None, True]}},
    {"type": "reasoning", "summary": [], "encrypted_content": "e"},
    {"type": "compaction", "encrypted_content": "e"},
    {"type": "agent_message", "author": "a", "content": [{"type": "input_text", "text": "do"}]},
    {"type": "local_shell_call_output", "id": "c1", "output": "o"},
]
WHOLE_ITEMS: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [TEXT], "phase": "commentary", "id": "i"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "o"}], "phase": None},
    {"type": "reasoning", "id": None, "summary": [{"type": "summary_text", "text": "s"}], "content": None},
    {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "t"}],
        "encrypted_content": "e",
    },
    {"type": "function_call", "name": "f", "namespace": "n", "arguments": "{}", "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "o"},
    {"type": "function_call_output", "call_id": "c1", "output": [TEXT, IMAGE, {"type": "input_text", "text": ""}]},
    {"type": "custom_tool_call", "status": "completed", "name": "f", "input": "x", "call_id": "c1"},
    {"type": "custom_tool_call_output", "name": "f", "call_id": "c1", "output": [TEXT]},
    {"type": "local_shell_call", "call_id": "c1", "status": "completed", "action": {"type": "exec", "command": ["ls"]}},
    {
        "type": "local_shell_call",
        "id": "c1",
        "status": "incomplete",
        "action": {"type": "exec", "command": [], "env": {}},
    },
    {"type": "tool_search_call", "call_id": "c1", "status": "s", "execution": "client", "arguments": None},
    {"type": "tool_search_output", "call_id": "c1", "status": "s", "execution": "client", "tools": [1]},
    {"type": "web_search_call", "status": "s", "action": {"type": "search", "query": "q", "queries": ["q"]}},
    {"type": "web_search_call", "action": {"type": "open_page", "url": "u"}},
    {"type": "image_generation_call", "id": "i", "status": "s", "revised_prompt": "p", "result": "AAAA"},
    {"type": "compaction", "encrypted_content": "e"},
    {"type": "compaction_summary", "encrypted_content": "e"},
    {"type": "context_compaction", "encrypted_content": "e"},
    {"type": "agent_message", "author": "a", "recipient": "b", "content": [TEXT]},
    {"type": "agent_message", "author": "a", "recipient": "b", "content": [ENCRYPTED]},
    {"type": "additional_tools", "role": "developer", "tools": [{}]},
    {"type": "configuration_update", "reasoning": {"effort": "high"}},
]
"""An item of every type that is known, with all keys that are looked at."""
NO_KEY = object()
BAD_VALUES: list[Any] = [NO_KEY, None, 7, 1.5, True, "zz", "", {}, {"type": "zz"}, [], ["x"], [7], [None]]
BAD_VALUES += [[part] for part in (TEXT, IMAGE, ENCRYPTED, NEW_PART, {"text": "x"}, {"type": "input_text"})]
BAD_VALUES += [[{"type": "input_image", "detail": "high"}], [{"type": "input_image", "file_id": "f", "detail": "zz"}]]
INSTRUCTIONS: list[dict[str, Any]] = [
    {"author": "/root", "recipient": "/root/a", "content": "", "trigger_turn": how, "encrypted_content": secret, **more}
    for how in (True, False)
    for secret in ("e", None)
    for more in ({}, {"other_recipients": ["/root/b"]})
]


def with_key(value: dict[str, Any], at: int, found: object) -> dict[str, Any]:
    """The same with another value for one of its keys, or without it."""
    key = list(value)[at % len(value)]
    return {name: found if name == key else old for name, old in value.items() if name != key or found is not NO_KEY}
