"""An agent of the OpenAI Agents SDK with two tools, whose session is a rollout (needs `rollout[agents]`).

    python examples/agent_with_tools.py HOME start       a task is done; in the second one a tool dies by SIGKILL
    python examples/agent_with_tools.py HOME resume      another process goes on where it died
    python examples/agent_with_tools.py HOME branch      does something else from the second task on, in a branch
    python examples/agent_with_tools.py HOME rollback    takes the last task of the main branch back
    python examples/agent_with_tools.py HOME history     what the model sees of each branch, and why

Nothing is sent anywhere: the model is a class at the end of this file.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, RunContextWrapper, Runner, Usage, function_tool
from agents.items import TResponseInputItem, TResponseStreamEvent
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import rollout
from rollout.adapters.agents import RolloutSession

SESSION = "copies"  # any text; as it can be the name of a thread it is one: `rollout history copies`


@dataclass
class Workspace:
    """What the tools work on."""

    folder: Path
    dies: bool = False


@function_tool
def read_file(workspace: RunContextWrapper[Workspace], name: str) -> str:
    """Read a file."""
    return (workspace.context.folder / name).read_text()


@function_tool
def write_file(workspace: RunContextWrapper[Workspace], name: str, text: str) -> str:
    """Write a file. Doing it twice is the same as doing it once, so that it may be called again after a crash."""
    (workspace.context.folder / name).write_text(text)
    if workspace.context.dies:
        os.kill(os.getpid(), signal.SIGKILL)  # done, and nobody was told
    return f"wrote {name}"


async def run(home: Path, session: RolloutSession, task: str | list[TResponseInputItem], dies: bool = False) -> str:
    """A run of the agent: the session gives what was before, and takes each step of the run as one durable batch."""
    folder = home / "files"
    folder.mkdir(parents=True, exist_ok=True)
    agent = Agent[Workspace](name="copyist", model=LocalModel(), tools=[read_file, write_file])
    quiet = RunConfig(tracing_disabled=True)  # traces go to OpenAI otherwise
    done = await Runner.run(agent, task, session=session, context=Workspace(folder, dies), run_config=quiet)
    return str(done.final_output)


async def start(home: Path) -> None:
    """Two tasks. The second dies behind what `write_file` did."""
    home.joinpath("files").mkdir(parents=True, exist_ok=True)
    home.joinpath("files", "notes.txt").write_text("milk, tea")
    session = RolloutSession(SESSION, home)
    print(await run(home, session, "copy notes.txt to a.txt"), flush=True)
    await run(home, session, "copy a.txt to b.txt", dies=True)


async def resume(home: Path) -> None:
    """No new input: the run goes on from what the session holds.

    The SDK hands a call to the session together with its output, when the tools of a step are through. So the call
    that died is not there, as if it had never been made: the model makes it again, and tools must be able to bear
    that. (A call that waits for an approval is there without an output; the SDK leaves it out of the prompt.)
    """
    session = RolloutSession(SESSION, home)
    for item in await session.get_items():
        print(shown(item))
    print(await run(home, session, []))


async def branch(home: Path) -> None:
    """A branch is a rollout of its own that refers to the one it came from; the session goes on in it."""
    session = RolloutSession(SESSION, home)
    await session.create_branch_from_turn(2, "other")  # it has what was before the second task
    print(await run(home, session, "copy notes.txt to c.txt"))
    await session.switch_to_branch("main")


async def rollback(home: Path) -> None:
    """Nothing is erased: a line is appended that says how many of the user's messages no longer count.

    The session needs no telling. It is what the file says, whoever wrote it.
    """
    with rollout.Store(home).open(SESSION) as log:
        log.rollback(1)
    for item in await RolloutSession(SESSION, home).get_items():
        print(shown(item))


async def history(home: Path) -> None:
    """What the library says of each branch, as it would of any rollout; it needs no SDK for that.

    Of what the session itself can tell: how things stood when any turn of any branch ended.
    """
    session = RolloutSession(SESSION, home)
    for row in await session.list_branches():
        print(f"{row['branch_id']}: the model sees")
        for item in rollout.reconstruct(row["path"]).history:
            print(f"    {shown(item)}")
        fates = Counter(line.status for line in rollout.explain(row["path"]))
        print(f"    as of all lines {', '.join(f'{count} are {fate}' for fate, count in fates.items())}")
    print(f"at the end of turn 1 of other: {shown((await session.items_at_turn(1, 'other'))[-1])}")


def shown(item: Any) -> str:
    """An item in a few words."""
    if "role" in item:
        content = item["content"]
        return f"{item['role']}: {content if isinstance(content, str) else content[0]['text']}"
    return f"call: {item['name']} {item['arguments']}" if "name" in item else f"output: {item['output']}"


class LocalModel(Model):
    """Copies the file that it was last asked to copy: reads, writes, says so. It remembers nothing."""

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002  # so the SDK calls it
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        """The next step, from what the prompt says was done since the last task."""
        last = max(n for n, item in enumerate(input) if item.get("role") == "user")
        source, target = str(input[last]["content"]).split()[1::2]
        outputs = [item["output"] for item in input[last:] if item.get("type") == "function_call_output"]
        number = str(len(input))
        step: ResponseFunctionToolCall | ResponseOutputMessage
        if not outputs:
            step = call(number, read_file, name=source)
        elif len(outputs) == 1:
            step = call(number, write_file, name=target, text=outputs[0])
        else:
            text = ResponseOutputText(type="output_text", text=f"copied {source} to {target}", annotations=[])
            step = ResponseOutputMessage(
                id=number, type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[step], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[TResponseStreamEvent]:
        """For `Runner.run_streamed`, which this example does not use."""
        raise NotImplementedError


def call(call_id: str, tool: FunctionTool, **arguments: str) -> ResponseFunctionToolCall:
    """A call of a tool, as the API gives it."""
    said = json.dumps(arguments)
    return ResponseFunctionToolCall(type="function_call", call_id=call_id, name=tool.name, arguments=said)


STEPS = {step.__name__: step for step in (start, resume, branch, rollback, history)}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in STEPS:
        sys.exit(f"usage: python {sys.argv[0]} HOME {'|'.join(STEPS)}")
    asyncio.run(STEPS[sys.argv[2]](Path(sys.argv[1])))
