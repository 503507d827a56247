"""A recording to serve, its lines built by hand, and what its client sends."""

from __future__ import annotations

from typing import Any

from rollout.adapters.responses.recording import Answer, Departure, Recording
from tests.builders import (
    assistant,
    call,
    completed,
    context,
    contextual,
    event,
    item,
    line,
    log,
    output,
    session_meta,
    started,
    user,
    user_item,
)

QUESTION, SECOND = user_item("fix the tests"), user_item("thank you")
CALLED: dict[str, Any] = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c1"}
RETURNED: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "out"}


def reasoning(text: str = "hm") -> bytes:
    return item("reasoning", summary=[{"type": "summary_text", "text": text}], content=None, encrypted_content="e")


def charged(total: int) -> bytes:
    """What Codex tells when an answer is there."""
    usage = {"input_tokens": 7, "cached_input_tokens": 3, "output_tokens": 2, "reasoning_output_tokens": 1}
    told = {"total_token_usage": {"total_tokens": total}, "last_token_usage": {**usage, "total_tokens": 9}}
    return event("token_count", info=told)


def usage_of_record() -> bytes:
    return line("token_usage_record", {"usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})


def a_turn(name: str, *lines: bytes, model: str = "gpt-5.4") -> list[bytes]:
    return [started(name), context(name, model), *lines, completed(name)]


TOOLS = log(
    session_meta(base_instructions={"text": "Be brief."}),
    *a_turn(
        "t1", contextual(), user("fix the tests"), reasoning(), call(), charged(9), output(), charged(9),
        assistant("all green"), charged(18),
    ),
    *a_turn("t2", user("thank you"), assistant("welcome"), charged(27)),
)  # fmt: skip
"""Three calls: a tool call, the text behind its output, the answer to a second question."""
CONTEXT = user_item("<environment_context>x</environment_context>")


def asked(recording: Recording, *items: Any, **more: Any) -> Answer:
    """The answer to these items; a departure fails."""
    given = recording.answer({"model": "gpt-5.4", "input": list(items), **more})
    assert isinstance(given, Answer), given.message
    return given


def refused(recording: Recording, *items: Any, **more: Any) -> Departure:
    """The departure that these items are; an answer fails."""
    given = recording.answer({"model": "gpt-5.4", "input": list(items), **more})
    assert isinstance(given, Departure), given.call
    return given


def texts(answer: Answer) -> list[str]:
    """The texts and names of what was answered."""
    said: list[str] = []
    for each in answer.response["output"]:
        said += [part["text"] for part in each.get("content", []) if each["type"] == "message"]
        said += [each["name"]] if "name" in each else []
    return said
