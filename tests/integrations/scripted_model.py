"""An agent on a script, to play with any session: its model says what it is told to say, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

from agents import Agent, Model, ModelResponse, Usage, function_tool
from agents.items import TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

Step: TypeAlias = list[TResponseOutputItem] | Exception


class Scripted(Model):
    """Gives the steps one after the other; `seen` is what it was asked with."""

    def __init__(self, *steps: Step) -> None:
        self.steps, self.seen = list(steps), list[Any]()

    def _next(self, prompt: Any) -> list[TResponseOutputItem]:
        self.seen.append(copy.deepcopy(prompt))
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002  # the SDK's name
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        return ModelResponse(output=self._next(input), usage=Usage(), response_id="resp_1")

    async def stream_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002  # the SDK's name
        *_: Any,
        **__: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        response = Response(
            id="resp_1",
            created_at=0,
            model="scripted",
            object="response",
            output=self._next(input),
            parallel_tool_calls=False,
            tool_choice="none",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


def says(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id=f"msg-{text}", type="message", role="assistant", status="completed", content=[content]
    )


def calls(tool: str, call_id: str, **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(type="function_call", call_id=call_id, name=tool, arguments=json.dumps(arguments))


def thinks(text: str) -> ResponseReasoningItem:
    return ResponseReasoningItem(id=f"rs-{text}", type="reasoning", summary=[Summary(type="summary_text", text=text)])


@function_tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


@function_tool(failure_error_function=None)
def explode() -> str:
    """Fails, and with it the run."""
    raise ValueError("boom")


@function_tool
def stumble() -> str:
    """Fails, and the model is told so."""
    raise ValueError("boom")


@function_tool(needs_approval=True)
def erase(name: str) -> str:
    """Is not done without leave."""
    return f"erased {name}"


def an_agent(*steps: Step, **more: Any) -> tuple[Agent[Any], Scripted]:
    model = Scripted(*steps)
    return Agent(name="one", model=model, tools=[double, explode, stumble, erase], **more), model
