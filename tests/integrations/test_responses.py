"""A served recording through the real client of the Responses API, and through an agent of the OpenAI Agents SDK."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, Runner
from openai import APIStatusError, AsyncOpenAI, BadRequestError, DefaultHttpxClient, OpenAI

from rollout import UsageError
from rollout.adapters.agents import RolloutSession
from rollout.adapters.responses.events import DELTA_CHARACTERS
from rollout.adapters.responses.server import Exchange, Server
from tests.builders import assistant, assistant_item, compacted, item, line, log, user, user_item
from tests.integrations.agent_sessions import file_of, run
from tests.integrations.scripted_model import Step, an_agent, calls, double, says, thinks
from tests.integrations.scripted_runs import QUIET
from tests.recordings import CALLED, CONTEXT, QUESTION, RETURNED, SECOND, TOOLS, a_turn, charged

FIRST: list[Any] = [CONTEXT, QUESTION]
LONG = "ab \U0001f600 " * 100


@contextlib.contextmanager
def serving(source: Any, told: list[Exchange] | None = None, **more: Any) -> Iterator[Server]:
    """A running server, ended behind the block."""
    server = Server(source, on_exchange=None if told is None else told.append, **more)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()


def client_of(server: Server) -> Any:
    plain = DefaultHttpxClient(verify=False)  # loading certificates takes most of a test
    return OpenAI(base_url=server.url, api_key="none", http_client=plain, timeout=20)


def connect(server: Server) -> http.client.HTTPConnection:
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    return http.client.HTTPConnection("127.0.0.1", port, timeout=20)


def post(server: Server, body: bytes, path: str = "/v1/responses", **headers: str) -> tuple[int, Any]:
    """The status and the document that one request gets."""
    with contextlib.closing(connect(server)) as connection:
        connection.request("POST", path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


# The client


def test_the_client_gets_each_answer_and_goes_on_with_what_it_got() -> None:
    with serving(TOOLS) as server, client_of(server) as client:
        first = client.responses.create(model="gpt-5.4", input=FIRST)
        assert [each.type for each in first.output] == ["reasoning", "function_call"]
        items = [*FIRST, *(each.model_dump() for each in first.output), RETURNED]
        second = client.responses.create(model="gpt-5.4", input=items)
        assert (second.output_text, second.status, second.model) == ("all green", "completed", "gpt-5.4")
        assert second.usage is not None
        assert (second.usage.total_tokens, second.usage.input_tokens_details.cached_tokens) == (9, 3)
        items += [*(each.model_dump() for each in second.output), SECOND]
        assert client.responses.create(model="gpt-5.4", input=items).output_text == "welcome"


def test_a_stream_has_the_events_of_the_api_in_their_order() -> None:
    with serving(TOOLS) as server, client_of(server) as client:
        events = list(client.responses.create(model="gpt-5.4", input=FIRST, stream=True))
        last = list(client.responses.create(model="gpt-5.4", input=[*FIRST, *said(events[-1]), RETURNED], stream=True))
    begins, ends = ["response.created", "response.in_progress"], ["response.output_item.done", "response.completed"]
    assert [event.type for event in last] == [
        *begins, "response.output_item.added", "response.content_part.added", "response.output_text.delta",
        "response.output_text.done", "response.content_part.done", *ends,
    ]  # fmt: skip
    assert [event.type for event in events if "delta" in event.type or "done" in event.type] == [
        "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done", "response.output_item.done",
        "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert {type(event).__name__ for event in (*events, *last)} >= {"ResponseCompletedEvent", "ResponseTextDeltaEvent"}


def said(event: Any) -> list[Any]:
    return [each.model_dump() for each in event.response.output]


def test_the_pieces_of_a_stream_joined_are_the_whole_response() -> None:
    recording = log(
        *a_turn(
            "t", user("q"), item("reasoning", summary=[{"type": "summary_text", "text": LONG}], content=[
                {"type": "reasoning_text", "text": LONG}]),
            line("response_item", {**assistant_item(LONG, "two"), "phase": "final_answer"}),
            item("custom_tool_call", call_id="c2", name="apply_patch", input=LONG, status="completed"),
            item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "q"}),
            item("image_generation_call", id="ig_1", status="completed", result="AA=="),
            item("message", role="assistant", content=[{"type": "refusal", "refusal": "No."}]), charged(9),
        )
    )  # fmt: skip
    deltas: Counter[str] = Counter()
    with serving(recording) as server, client_of(server) as client:
        with client.responses.stream(model="gpt-5.4", input="q") as stream:
            for event in stream:
                if hasattr(event, "delta"):
                    deltas[event.type] += len(event.delta)
            final = stream.get_final_response()
        *_, completed = client.responses.create(model="gpt-5.4", input="q", stream=True)
        assert completed.response == client.responses.create(model="gpt-5.4", input="q")
        assert final.output_text == LONG + "two"
        assert final.id == client.responses.retrieve(final.id).id
    assert len(LONG) > DELTA_CHARACTERS
    assert deltas == {
        "response.reasoning_summary_text.delta": len(LONG), "response.reasoning_text.delta": len(LONG),
        "response.output_text.delta": len(LONG + "two"), "response.custom_tool_call_input.delta": len(LONG),
        "response.refusal.delta": len("No."),
    }  # fmt: skip


def test_a_departure_is_an_error_that_the_client_does_not_try_again() -> None:
    told: list[Exchange] = []
    with serving(TOOLS, told) as server, client_of(server) as client:
        for streams in (False, True):
            with pytest.raises(BadRequestError) as caught:
                client.responses.create(model="gpt-5.4", input=[CONTEXT, SECOND], stream=streams)
            assert (caught.value.code, caught.value.param) == ("departs_from_recording", "input[1]")
            assert 'recorded "fix the tests", asked "thank you"' in caught.value.message
    assert [(each.call, each.streamed, each.error is None) for each in told] == [(1, False, False), (1, True, False)]


def test_the_client_can_go_on_from_a_response_compact_and_list_models() -> None:
    short = {"type": "compaction", "encrypted_content": "e"}
    data = log(*a_turn("t", user("q"), assistant("a")), compacted([short]), user("r"), assistant("b"))
    with serving(data) as server, client_of(server) as client:
        first = client.responses.create(model="gpt-5.4", input="q")
        compact = client.responses.compact(model="gpt-5.4", input=[user_item("q"), *said_by(first)])
        assert [each.type for each in compact.output] == ["compaction"]
        items: Any = [*(each.model_dump() for each in compact.output), user_item("r")]
        assert client.responses.create(model="gpt-5.4", input=items).output_text == "b"
        assert [model.id for model in client.models.list()] == ["gpt-5.4"]
    with serving(TOOLS) as server, client_of(server) as client:
        first = client.responses.create(model="gpt-5.4", input=FIRST)
        output: Any = RETURNED
        assert client.responses.create(input=[output], previous_response_id=first.id).output_text == "all green"


def said_by(response: Any) -> list[Any]:
    return [each.model_dump() for each in response.output]


# An agent


def test_an_agent_that_was_recorded_runs_again_against_its_recording(tmp_path: Path) -> None:
    script: list[Step] = [
        [thinks("hm"), calls("double", "c1", number=3)], [says("six")],
        [calls("double", "c2", number=6)], [says("twelve")],
    ]  # fmt: skip
    recorded, _ = an_agent(*script)
    session = RolloutSession("s", tmp_path / "recorded")
    for question in ("twice 3", "again"):
        run(Runner.run(recorded, question, session=session, run_config=QUIET))

    async def again(server: Server) -> list[str]:
        client = AsyncOpenAI(base_url=server.url, api_key="none")
        model = OpenAIResponsesModel("gpt-5.4", client)
        agent, repeated = Agent(name="two", model=model, tools=[double]), RolloutSession("s", tmp_path / "again")
        first = await Runner.run(agent, "twice 3", session=repeated, run_config=QUIET)
        second = Runner.run_streamed(agent, "again", session=repeated, run_config=QUIET)
        kinds = [event.type async for event in second.stream_events()]
        assert "raw_response_event" in kinds
        with pytest.raises(BadRequestError, match="the end, after call 4"):
            await Runner.run(agent, "and again", session=repeated, run_config=QUIET)
        await client.close()
        return [first.final_output, second.final_output]

    told: list[Exchange] = []
    with serving(file_of(tmp_path / "recorded"), told) as server:
        assert run(again(server)) == ["six", "twelve"]
    assert [each.call for each in told if each.error is None] == [1, 2, 3, 4]
    assert [each.notes for each in told if each.error is None] == [()] * 4


# The server


def test_only_programs_on_this_machine_are_answered() -> None:
    body = json.dumps({"input": FIRST}).encode()
    with serving(TOOLS) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert post(server, body, Host="evil.example:80")[0] == 403
        assert post(server, body, Origin="http://evil.example")[0] == 403
        assert post(server, body, Host="localhost:1")[0] == 200


@pytest.mark.parametrize(
    ("body", "headers", "path", "status"),
    [
        (b"{", {}, "/v1/responses", 400),
        (b"[]", {}, "/v1/responses", 400),
        (b'{"input":' + b"[" * 100_000, {}, "/v1/responses", 400),
        (b'{"input":[{"type":"x","a":' + b"[" * 700 + b"]" * 700 + b"}]}", {}, "/v1/responses", 400),
        (b'{"input":[{"type":"x","a":"\\ud800"}]}', {}, "/v1/responses", 400),
        (b'{"input":7}', {}, "/v1/responses", 400),
        (b"{}", {"Content_Encoding": "zstd"}, "/v1/responses", 415),
        (b"{}", {"Content_Length": "x"}, "/v1/responses", 411),
        (b"{}", {"Content_Length": "9" * 20}, "/v1/responses", 413),
        (b"{}", {}, "/v1/chat/completions", 404),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_gets_an_error_in_the_form_of_the_api(
    running: Server, body: bytes, headers: dict[str, str], path: str, status: int
) -> None:
    found, document = post(running, body, path, **headers)
    assert found == status
    assert document["error"]["message"]
    assert post(running, json.dumps({"input": FIRST}).encode())[0] == 200


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """One that is not disturbed by anything."""
    with serving(TOOLS) as server:
        yield server


def test_one_connection_carries_one_request_after_the_other() -> None:
    bodies = [{"input": FIRST, "stream": True}, {"input": []}, {"input": FIRST}]
    with serving(TOOLS) as server, contextlib.closing(connect(server)) as connection:
        statuses, sockets = [], set()
        for body in bodies:
            connection.request("POST", "/responses", json.dumps(body))
            answer = connection.getresponse()
            statuses.append(answer.status)
            assert answer.read()
            sockets.add(connection.sock)
    assert statuses == [200, 400, 200]
    assert len(sockets) == 1


def test_a_client_that_goes_away_in_a_stream_does_not_disturb_the_next_one() -> None:
    data = log(user("q"), assistant("x" * 400_000))
    body = b'{"input":"q","stream":true}'
    with serving(data) as server, client_of(server) as client:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as rude:
            rude.sendall(b"POST /responses HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            assert rude.recv(100).startswith(b"HTTP/1.1 200")
        assert len(client.responses.create(model="m", input="q").output_text) == 400_000


def test_many_clients_at_once_get_what_they_ask_for() -> None:
    with serving(TOOLS) as server, client_of(server) as client, ThreadPoolExecutor(8) as pool:
        whole: Any = [
            *FIRST,
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            CALLED,
            RETURNED,
        ]
        asked = [FIRST, whole] * 10
        answers = list(pool.map(lambda each: client.responses.create(model="gpt-5.4", input=each), asked))
    assert [answer.output_text for answer in answers] == ["", "all green"] * 10


def test_a_request_that_fails_unexpectedly_is_told_and_the_next_one_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **more: Any) -> Any:
        raise KeyError("secret")

    told: list[Exchange] = []
    with serving(TOOLS, told) as server, client_of(server) as client:
        monkeypatch.setattr(server.recording, "answer", fail)
        with pytest.raises(APIStatusError, match="KeyError"):
            client.responses.create(model="gpt-5.4", input=FIRST)
        monkeypatch.undo()
        assert client.responses.create(model="gpt-5.4", input=FIRST).id
    assert [each.error for each in told] == ["a request failed unexpectedly (KeyError)", None]


def test_what_cannot_be_served_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="no model answered"):
        Server(log(user("q")))
    with serving(TOOLS) as server, pytest.raises(UsageError, match="cannot be had"):
        Server(TOOLS, port=int(server.url.rpartition(":")[2].partition("/")[0]))


def test_a_teller_that_fails_ends_the_server_with_its_failure() -> None:
    def fail(exchange: Exchange) -> None:
        raise LookupError(exchange.call)

    server = Server(TOOLS, on_exchange=fail)
    with ThreadPoolExecutor(1) as pool, client_of(server) as client:
        running = pool.submit(server.run)
        with contextlib.suppress(APIStatusError):
            client.responses.create(model="gpt-5.4", input=FIRST)
        with pytest.raises(LookupError, match="1"):
            running.result(timeout=20)
