"""Runs of a scripted agent, to play with any session and compare.

A scenario takes a way to open the session (a new object for the same history each time) and a list to note in what it
saw. What it does must be the same at every play: ids are given, and runs at once wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    RunState,
    SessionSettings,
    UserError,
    function_tool,
)
from agents.items import TResponseInputItem
from agents.memory import Session

from tests.integrations.scripted_model import an_agent, calls, double, says, thinks

Open: TypeAlias = Callable[[], Session]
Noted: TypeAlias = list[Any]
QUIET = RunConfig(tracing_disabled=True)


async def talk(open_: Open, noted: Noted, *exchanges: str) -> None:
    """Questions that are answered at once."""
    for exchange in exchanges:
        agent, model = an_agent([says(f"answer to {exchange}")])
        await Runner.run(agent, exchange, session=open_(), run_config=QUIET)
        noted.append(model.seen)


async def a_conversation(open_: Open, noted: Noted) -> None:
    await talk(open_, noted, "q1", "q2 \N{GRINNING FACE}\u2028\0", "q3")


async def tools_one_after_the_other_and_two_in_one_step(open_: Open, noted: Noted) -> None:
    agent, model = an_agent(
        [calls("double", "c1", number=1)],
        [thinks("hm"), calls("double", "c2", number=2), calls("double", "c3", number=10**23)],
        [says("done")],
    )
    await Runner.run(agent, "compute", session=open_(), run_config=QUIET)
    noted.append(model.seen)
    await talk(open_, noted, "and now")


async def a_streamed_run_with_tools(open_: Open, noted: Noted) -> None:
    agent, model = an_agent([thinks("hm"), calls("double", "c1", number=1)], [says("two")])
    run = Runner.run_streamed(agent, "stream", session=open_(), run_config=QUIET)
    noted.append([event.type async for event in run.stream_events()])
    noted.append(model.seen)
    await talk(open_, noted, "again")


async def a_streamed_run_that_is_stopped_after_its_turn(open_: Open, noted: Noted) -> None:
    agent, _ = an_agent([calls("double", "c1", number=1)], [says("never")])
    run = Runner.run_streamed(agent, "stream", session=open_(), run_config=QUIET)
    async for event in run.stream_events():
        if event.type == "run_item_stream_event":
            run.cancel(mode="after_turn")
    await talk(open_, noted, "go on")


async def a_model_that_fails_in_the_middle(open_: Open, noted: Noted) -> None:
    agent, model = an_agent([calls("double", "c1", number=1)], ConnectionError("gone"), [says("at last")])
    for streamed in (False, True):
        try:
            if streamed:
                run = Runner.run_streamed(agent, [], session=open_(), run_config=QUIET)
                noted.append([event.type async for event in run.stream_events()])
            else:
                await Runner.run(agent, "try", session=open_(), run_config=QUIET)
        except ConnectionError as error:
            noted.append(str(error))
    noted.append(model.seen)


async def tools_that_fail_softly_and_hard(open_: Open, noted: Noted) -> None:
    agent, model = an_agent([calls("stumble", "c1")], [calls("double", "c2", number=2), calls("explode", "c3")])
    try:
        await Runner.run(agent, "fail", session=open_(), run_config=QUIET)
    except UserError as error:
        noted.append(str(error))
    noted.append(model.seen)
    await talk(open_, noted, "what happened?")


async def a_tool_that_is_not_there(open_: Open, noted: Noted) -> None:
    agent, _ = an_agent([calls("conjure", "c1")])
    try:
        await Runner.run(agent, "conjure", session=open_(), run_config=QUIET)
    except ModelBehaviorError as error:
        noted.append(str(error))
    await talk(open_, noted, "never mind")


async def more_turns_than_allowed(open_: Open, noted: Noted) -> None:
    agent, _ = an_agent([calls("double", "c1", number=1)], [calls("double", "c2", number=2)])
    try:
        await Runner.run(agent, "loop", session=open_(), run_config=QUIET, max_turns=1)
    except MaxTurnsExceeded as error:
        noted.append(str(error))
    await talk(open_, noted, "enough")


async def a_handoff_between_agents(open_: Open, noted: Noted) -> None:
    agent, model = an_agent([calls("transfer_to_two", "c1")], [calls("double", "c2", number=4)], [says("from two")])
    other: Agent[Any] = Agent(name="two", model=model, tools=[double])
    agent.handoffs = [other]
    done = await Runner.run(agent, "hand over", session=open_(), run_config=QUIET)
    noted.append([done.last_agent.name, model.seen])
    await talk(open_, noted, "back")


async def an_agent_as_a_tool(open_: Open, noted: Noted) -> None:
    inner, inner_model = an_agent([calls("double", "i1", number=3)], [says("six")])
    agent, model = an_agent([calls("helper", "c1", input="3")], [says("six it is")])
    agent.tools = [inner.as_tool("helper", "Helps.")]
    await Runner.run(agent, "ask the helper", session=open_(), run_config=QUIET)
    noted.append([model.seen, inner_model.seen])


async def input_that_is_a_list_of_all_kinds(open_: Open, noted: Noted) -> None:
    items: list[Any] = [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "input_text", "text": "u"}, {"type": "input_image", "image_url": "i"}]},
        {"type": "message", "role": "user", "content": "twice"},
        {"type": "message", "role": "user", "content": "twice"},
        {"type": "item_reference", "id": "x"},
        {"type": "compaction", "encrypted_content": "e"},
        {"role": "user", "content": "<environment_context>looks like a program's</environment_context>"},
    ]
    agent, model = an_agent([says("fine")])
    await Runner.run(agent, items, session=open_(), run_config=QUIET)
    noted.append(model.seen)
    await talk(open_, noted, "more")


async def _with_callback(open_: Open, noted: Noted, merge: Any, settings: SessionSettings | None = None) -> None:
    config = RunConfig(tracing_disabled=True, session_input_callback=merge, session_settings=settings)
    agent, model = an_agent([calls("double", "c9", number=9)], [says("merged")])
    await Runner.run(agent, [{"role": "user", "content": "new"}], session=open_(), run_config=config)
    noted.append(model.seen)


async def callbacks_that_drop_reorder_and_add(open_: Open, noted: Noted) -> None:
    Items: TypeAlias = list[TResponseInputItem]

    def last_two(history: Items, new: Items) -> Items:
        return history[-2:] + new

    def new_first(history: Items, new: Items) -> Items:
        return new + history

    async def with_a_note(history: Items, new: Items) -> Items:
        return [*history, {"role": "developer", "content": "note"}, *new, *new]

    def nothing_new(history: Items, new: Items) -> Items:
        return history

    await talk(open_, noted, "q1", "q2")
    for merge in (last_two, new_first, with_a_note, nothing_new):
        await _with_callback(open_, noted, merge)


async def limits_that_cut_a_call_from_its_output(open_: Open, noted: Noted) -> None:
    agent, _ = an_agent([calls("double", "c1", number=1), calls("double", "c2", number=2)], [says("done")])
    await Runner.run(agent, "compute", session=open_(), run_config=QUIET)
    for limit in (0, 1, 2, 3, 100):
        await _with_callback(open_, noted, None, SessionSettings(limit=limit))
        session = open_()
        session.session_settings = SessionSettings(limit=limit)
        noted.append([await session.get_items(), await session.get_items(2), await session.get_items(limit=0)])


async def an_approval_that_is_given_to_another_process(open_: Open, noted: Noted) -> None:
    for allowed in (True, False):
        agent, model = an_agent(
            [calls("double", f"c1{allowed}", number=1), calls("erase", f"c2{allowed}", name="a")], [says("so be it")]
        )
        paused = await Runner.run(agent, "erase a", session=open_(), run_config=QUIET)
        noted.append(await open_().get_items())
        state = await RunState.from_string(agent, paused.to_state().to_string())
        (question,) = state.get_interruptions()
        state.approve(question) if allowed else state.reject(question)
        done = await Runner.run(agent, state, session=open_(), run_config=QUIET)
        noted.append([done.final_output, model.seen])


async def an_approval_that_is_never_given(open_: Open, noted: Noted) -> None:
    agent, _ = an_agent([thinks("hm"), calls("erase", "c1", name="a")])
    paused = await Runner.run(agent, "erase a", session=open_(), run_config=QUIET)
    noted.append(len(paused.interruptions))
    await talk(open_, noted, "no, leave it")


async def guardrails_that_trip(open_: Open, noted: Noted) -> None:
    async def refuse(*_: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    before = [InputGuardrail(guardrail_function=refuse, name="before")]
    after: list[Any] = [OutputGuardrail(guardrail_function=refuse, name="after")]
    for guards in ({"input_guardrails": before}, {"output_guardrails": after}):
        agent, _ = an_agent([calls("double", "c1", number=1)], [says("rude")], **guards)
        try:
            await Runner.run(agent, "be rude", session=open_(), run_config=QUIET)
        except (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered) as error:
            noted.append(type(error).__name__)
    await talk(open_, noted, "sorry")


async def a_run_that_is_cancelled_in_a_tool(open_: Open, noted: Noted) -> None:
    begun = asyncio.Event()

    @function_tool
    async def wait() -> str:
        """Never ends."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent, _ = an_agent([calls("double", "c1", number=1)], [calls("wait", "c2")])
    agent.tools.append(wait)
    run = asyncio.create_task(Runner.run(agent, "wait", session=open_(), run_config=QUIET))
    await begun.wait()
    run.cancel()
    await asyncio.wait({run})
    noted.append(run.cancelled())
    await talk(open_, noted, "go on")


async def one_session_object_for_two_runs_at_once(open_: Open, noted: Noted) -> None:
    session, begun, other_is_over = open_(), asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> str:
        """Until the other run is over."""
        begun.set()
        await other_is_over.wait()
        return "waited"

    agent, model = an_agent([calls("wait", "c1")], [says("second")])
    agent.tools.append(wait)
    slow = asyncio.create_task(Runner.run(agent, "slow", session=session, run_config=QUIET))
    await begun.wait()
    await talk(lambda: session, noted, "quick")
    other_is_over.set()
    await slow
    noted.append(model.seen)


async def an_answer_that_is_taken_back_and_asked_for_again(open_: Open, noted: Noted) -> None:
    await talk(open_, noted, "q1", "q2")
    session = open_()
    noted.append([await session.pop_item(), await session.pop_item()])
    await talk(open_, noted, "q2, better")
    await open_().clear_session()
    noted.append([await open_().get_items(), await open_().pop_item()])
    await talk(open_, noted, "from the start")


async def a_run_from_the_items_of_another(open_: Open, noted: Noted) -> None:
    agent, _ = an_agent([thinks("hm"), calls("double", "c1", number=1)], [says("two")])
    done = await Runner.run(agent, "compute", run_config=QUIET)
    other, model = an_agent([says("fine")])
    await Runner.run(other, done.to_input_list(), session=open_(), run_config=QUIET)
    noted.append(model.seen)


SCENARIOS: dict[str, Callable[[Open, Noted], Any]] = {
    play.__name__: play
    for play in (
        a_conversation,
        tools_one_after_the_other_and_two_in_one_step,
        a_streamed_run_with_tools,
        a_streamed_run_that_is_stopped_after_its_turn,
        a_model_that_fails_in_the_middle,
        tools_that_fail_softly_and_hard,
        a_tool_that_is_not_there,
        more_turns_than_allowed,
        a_handoff_between_agents,
        an_agent_as_a_tool,
        input_that_is_a_list_of_all_kinds,
        callbacks_that_drop_reorder_and_add,
        limits_that_cut_a_call_from_its_output,
        an_approval_that_is_given_to_another_process,
        an_approval_that_is_never_given,
        guardrails_that_trip,
        a_run_that_is_cancelled_in_a_tool,
        one_session_object_for_two_runs_at_once,
        an_answer_that_is_taken_back_and_asked_for_again,
        a_run_from_the_items_of_another,
    )
}
