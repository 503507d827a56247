"""The events that a paginated log has for each item are those that Codex writes, for the same items."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.dialects.codex.item_events import ItemEvents
from tests.builders import assistant_item, dump, user_item

CASES = sorted((Path(__file__).parents[2] / "fixtures" / "cases").glob("p169_*"))
NOW_MS = 1_774_000_800_000
_OF_THE_MACHINE = {"id", "process_id", "source", "duration", "parsed_cmd", "stdout"}
"""What only the program knows that has run a command, and names that are made up."""


def events() -> ItemEvents:
    names = (f"made-{n}" for n in itertools.count(1))
    made = ItemEvents("thread", "/home/dev/project", None, lambda: next(names))
    made.add_to([("event_msg", dump({"type": "task_started", "turn_id": "t"}))], NOW_MS)
    return made


def shown(records: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    payloads = [json.loads(payload) for type, payload in records if type == "event_msg"]
    return [payload["item"] for payload in payloads if payload["type"] == "item_completed"]


def show(*items: dict[str, Any]) -> list[dict[str, Any]]:
    return shown(events().add_to([("response_item", dump(item)) for item in items], NOW_MS))


def called(item: dict[str, Any], output: object, kind: str = "function_call_output") -> list[dict[str, Any]]:
    return show({"call_id": "c", **item}, {"type": kind, "call_id": "c", "output": output})


def files() -> Iterator[Path]:
    for case in CASES:
        yield from sorted(case.rglob("*.jsonl"))


def comparable(item: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in item.items() if key not in _OF_THE_MACHINE}
    if item["type"] == "CommandExecution":
        kept["command"] = item["command"][1:]  # the shell has a path
    if item["type"] == "FileChange":
        kept["changes"] = sorted(change["type"] for change in item["changes"].values())
    return kept


@pytest.mark.parametrize("path", list(files()), ids=lambda path: path.parts[path.parts.index("cases") + 1])
def test_what_codex_wrote_is_written_for_the_same_items_in_the_same_order(path: Path) -> None:
    """But for what it did not ask or answer itself: the summary that a compaction needs, items that were injected."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines() if line.startswith(b'{"timestamp"')]
    summaries = [line["payload"]["message"] for line in lines if line["type"] == "compacted"]
    made, theirs = list[dict[str, Any]](), list[dict[str, Any]]()
    adds = events()
    for line in lines:
        payload = line["payload"]
        if payload.get("type") == "item_completed":
            theirs += [payload["item"]] if payload["item"].get("source") != "user_shell" else []
        else:
            made += shown(adds.add_to([(line["type"], dump(payload))], NOW_MS))
    said = [(item, "".join(part.get("text", "") for part in item.get("content", []))) for item in made]
    own = [item for item, text in said if not text.startswith("injected") and not _ends_one(text, summaries)]
    assert [comparable(item) for item in own] == [comparable(item) for item in theirs]


def _ends_one(text: str, summaries: list[str]) -> bool:
    return bool(text) and any(summary.endswith(f"\n{text}") for summary in summaries)


def test_a_user_message_shows_its_texts_and_pictures_and_none_that_the_program_wrote() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    tags = [{"type": "input_text", "text": text} for text in ('<image name=[Image #2] path="/p.png">', "</image>")]
    asked = user_item("look")
    asked["content"] += [picture, tags[0], picture, tags[1]]
    image = {"type": "image", "image_url": picture["image_url"]}
    text = {"type": "text", "text": "look", "text_elements": []}
    assert show(asked) == [{"type": "UserMessage", "id": "made-1", "content": [text, image, image]}]
    assert (
        show(user_item("<environment_context>x</environment_context>"), user_item("<turn_aborted>x</turn_aborted>"))
        == []
    )


def test_of_two_items_with_one_id_both_are_shown() -> None:
    said = [{**assistant_item(text), "id": "m1"} for text in ("a", "b")]
    assert [(item["id"], item["content"][0]["text"]) for item in show(*said)] == [("m1", "a"), ("made-1", "b")]


def test_a_phase_that_codex_does_not_know_is_left_out_as_it_would_hide_the_message() -> None:
    phases = ["final_answer", "commentary", "bogus", None, 1]
    shown = show(*({**assistant_item("a"), "phase": phase} for phase in phases))
    assert [item.get("phase") for item in shown] == ["final_answer", "commentary", None, None, None]


def test_plans_that_have_events_of_their_own_are_not_told_again_in_the_message() -> None:
    message = ("response_item", dump(assistant_item("<proposed_plan>\n- a\n</proposed_plan>\nthat is it\n")))
    plan = ("event_msg", dump({"type": "item_completed", "item": {"type": "Plan", "id": "p", "text": "- a\n"}}))
    told = [item for item in shown(events().add_to([plan, message], NOW_MS)) if item["type"] == "AgentMessage"]
    assert told[0]["content"] == [{"type": "Text", "text": "that is it\n"}]
    assert show(assistant_item("<proposed_plan>\n- a\n</proposed_plan>\n"))[0]["content"][0]["text"].count("plan") == 2


@pytest.mark.parametrize(
    ("call", "command", "cwd"),
    [
        ({"name": "exec_command", "arguments": '{"cmd":"ls -l"}'}, ["bash", "-lc", "ls -l"], "/home/dev/project"),
        ({"name": "shell", "arguments": '{"command":["ls","-l"],"workdir":"/a b"}'}, ["ls", "-l"], "/a%20b"),
        ({"name": "shell_command", "arguments": '{"command":"x","workdir":"é"}'}, ["bash", "-lc", "x"],
         "/home/dev/project/%C3%A9"),
        ({"type": "local_shell_call", "action": {"type": "exec", "command": ["pwd"], "working_directory": "C:\\x"}},
         ["pwd"], "/C:/x"),
    ],
)  # fmt: skip
def test_a_command_is_shown_by_whatever_tool_it_was_run(call: dict[str, Any], command: list[str], cwd: str) -> None:
    (item,) = called({"type": "function_call", **call}, "Exit code: 3\nWall time: 0 seconds\nOutput:\nhi\n")
    assert (item["type"], item["id"], item["command"], item["cwd"]) == (
        "CommandExecution",
        "c",
        command,
        f"file://{cwd}",
    )
    assert (item["status"], item["exit_code"], item["aggregated_output"]) == ("failed", 3, "hi\n")


@pytest.mark.parametrize(
    ("output", "text", "code"),
    [
        ("Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\na\n\nOutput:\n",
         "a\n\nOutput:\n", 0),
        ('{"output":"a","metadata":{"exit_code":1,"duration_seconds":0.1}}', "a", 1),
        ({"output": "a", "exit_code": 0}, "a", 0),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}], "a", None),
        ({"content": "a", "success": True}, "a", None),
        ("{not json", "{not json", None),
        ("", "", None),
    ],
)  # fmt: skip
def test_what_a_command_printed_is_told_without_the_lines_about_it(output: object, text: str, code: int | None) -> None:
    (item,) = called({"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"x"}'}, output)
    assert (item["aggregated_output"], item["exit_code"]) == (text, code)


@pytest.mark.parametrize(
    "output", ["aborted", "unsupported call: shell", "Wall time: 1.5 seconds\naborted by user", {"success": False}]
)
def test_a_command_that_was_not_run_is_not_shown(output: object) -> None:
    assert called({"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}'}, output) == []


PATCH = """*** Begin Patch
*** Add File: a.txt
+one
+
*** Update File: /x/b.txt
*** Move to: ./c.txt
@@ def f():
-old
+new
*** End of File
*** Delete File: d.txt
*** End Patch
"""
CHANGES = {
    "/home/dev/project/a.txt": {"type": "add", "content": "one\n\n"},
    "/x/b.txt": {
        "type": "update",
        "unified_diff": "@@ def f():\n-old\n+new\n",
        "move_path": "/home/dev/project/c.txt",
    },
    "/home/dev/project/d.txt": {"type": "delete", "content": ""},
}


@pytest.mark.parametrize(
    "call",
    [
        {"type": "custom_tool_call", "name": "apply_patch", "input": PATCH},
        {"type": "function_call", "name": "apply_patch", "arguments": json.dumps({"input": PATCH})},
        {"type": "function_call", "name": "shell", "arguments": json.dumps({"command": ["apply_patch", PATCH]})},
        {"type": "function_call", "name": "exec_command",
         "arguments": json.dumps({"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF"})},
    ],
)  # fmt: skip
def test_a_patch_shows_the_files_that_it_changes(call: dict[str, Any]) -> None:
    (item,) = called(call, "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.\n")
    assert item == {"type": "FileChange", "id": "c", "changes": CHANGES, "status": "completed", "stdout": "Success.\n",
                    "stderr": ""}  # fmt: skip
    (item,) = called(call, "Exit code: 1\nWall time: 0 seconds\nOutput:\nno such file\n")
    assert (item["status"], item["stdout"], item["stderr"]) == ("failed", "", "no such file\n")
    assert called(call, "apply_patch verification failed: no such file") == []


def test_a_turn_that_is_not_known_shows_nothing_and_calls_of_another_turn_are_over() -> None:
    unknown = ItemEvents("thread", None, None, lambda: "id")
    asked = ("response_item", dump(user_item("q")))
    assert unknown.add_to([asked], NOW_MS) == [asked]
    made = events()
    made.add_to([("response_item", dump({"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}',
                                         "call_id": "c"}))], NOW_MS)  # fmt: skip
    made.add_to([("event_msg", dump({"type": "task_started", "turn_id": "t2"}))], NOW_MS)
    output = ("response_item", dump({"type": "function_call_output", "call_id": "c", "output": "x"}))
    assert made.add_to([output], NOW_MS) == [output]


def test_how_long_a_command_took_is_told_by_the_times_of_its_call_and_its_output() -> None:
    made = events()
    call = {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c"}
    made.add_to([("response_item", dump(call))], NOW_MS)
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    (type, payload), _ = made.add_to([("response_item", dump(output))], NOW_MS + 1234)
    told = json.loads(payload)
    assert (type, told["turn_id"], told["started_at_ms"], told["completed_at_ms"]) == (
        "event_msg", "t", NOW_MS, NOW_MS + 1234
    )  # fmt: skip
    assert told["item"]["duration"] == {"secs": 1, "nanos": 234_000_000}


odd = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["c", "shell", '{"command":["x"]}', PATCH]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "command", "output", "cmd", "type"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = [
    "type",
    "role",
    "content",
    "name",
    "arguments",
    "input",
    "call_id",
    "output",
    "summary",
    "action",
    "id",
    "phase",
]
KINDS = ["message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "function_call_output",
         "web_search_call", "custom_tool_call_output"]  # fmt: skip


@given(
    st.lists(
        st.builds(
            lambda kind, rest: {**rest, "type": kind, "call_id": "c"},
            st.sampled_from(KINDS),
            st.dictionaries(st.sampled_from(KEYS), odd, max_size=6),
        ),
        max_size=4,
    )
)
def test_items_of_any_shape_are_passed_on_as_they_are(items: list[dict[str, Any]]) -> None:
    given = [("response_item", dump(item)) for item in items]
    made = events().add_to(given, NOW_MS)
    assert [record for record in made if record[0] == "response_item"] == given
    assert all(json.loads(payload)["type"] == "item_completed" for type, payload in made if type == "event_msg")
