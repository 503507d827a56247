"""No byte of a rollout, a name or an argument acts on the terminal: not as text, not as JSON, not in an error."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import aborted, compacted, context, line, log, rolled_back, started, user_item
from tests.cli import Ran, run, write

CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]
INVISIBLE = [
    chr(code) for code in (0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
]
TAGS = [chr(code) for code in (0xFFF9, 0xFFFE, 0xFFFF, 0xE0001, 0xE0041, 0xE007F, 0xE0100, 0xE01EF, 0x10FFFF)]
FORBIDDEN = frozenset([*CONTROLS, *INVISIBLE, *TAGS]) - {"\n"}
ALL = "".join(sorted(FORBIDDEN))
HOSTILE = st.text(st.one_of(st.sampled_from(sorted(FORBIDDEN | {"\n"})), st.characters(codec="utf-8")), max_size=20)
COMMANDS = [
    ["reconstruct"],
    ["history"],
    ["history", "--full"],
    ["history", "--prompt"],
    ["turns", "--all"],
    ["show", "--all"],
    ["explain"],
    ["explain", "--line", "4"],
    ["verify"],
]


def hostile_log(text: str) -> bytes:
    """A log with the text in every place that a view shows: ids, roles, kinds, names, keys, times."""
    place: dict[str, Any] = {text: text}
    kinds = [
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "web_search_call",
        "reasoning",
        "agent_message",
        "x" + text,
    ]
    items = [
        {
            "type": kind,
            "name": text,
            "arguments": text,
            "input": text,
            "author": text,
            "action": place,
            "summary": [text],
            "call_id": text,
        }
        for kind in kinds
    ]
    return log(
        line(
            "session_meta", {"id": text, "timestamp": text, "cwd": text, "base_instructions": {"text": text}, **place}
        ),
        line("event_msg", {"type": "task_started", "turn_id": text}, timestamp=text),
        context(text, text, cwd=text, effort=place),
        line("response_item", {"type": "message", "role": "user", "content": text}),
        *(line("response_item", each) for each in items),
        line(
            "response_item",
            {"type": "message", "role": "assistant", "content": [{"type": text}, {"text": text}, place]},
        ),
        line("world_state", {"full": True, "state": place}),
        line("event_msg", {"type": "token_count", "info": {"total_token_usage": {f"{text}_tokens": 1, **place}}}),
        line("k" + text, place),
        text.replace("\n", " ").encode() + b'{"type":',
        aborted(text),
        started(text),
        line("response_item", {"type": "message", "role": "user", "content": text}),
        rolled_back(1),
        compacted([user_item(text), {"type": "x" + text}]),
    )


def is_harmless(ran: Ran) -> bool:
    # A joiner inside a picture is allowed in text; these texts hold none, as FORBIDDEN is drawn one by one.
    return FORBIDDEN.isdisjoint(ran.out.replace("\u200d", "")) and FORBIDDEN.isdisjoint(ran.err.replace("\u200d", ""))


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_forbidden_character_is_escaped_in_text(command: list[str], folder: Path) -> None:
    path = write(folder, hostile_log(ALL))
    ran = run(*command, path)
    assert FORBIDDEN.isdisjoint(ran.out)
    assert ran.err == ""
    assert "\\x1b" in ran.out or command in (["verify"], ["explain", "--line", "4"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_forbidden_character_is_escaped_in_json(command: list[str], folder: Path) -> None:
    path = write(folder, hostile_log(ALL))
    ran = run(*[word for word in command if word != "--full"], path, "--json")
    assert FORBIDDEN.isdisjoint(ran.out)
    json.loads(ran.out)
    if command == ["reconstruct"]:
        assert ran.json["session"]["cwd"] == ALL
        assert ran.json["base_instructions"] == ALL


@settings(max_examples=15)
@given(text=HOSTILE)
def test_no_text_makes_any_command_print_what_acts_on_a_terminal(folder: Path, text: str) -> None:
    path = write(folder, hostile_log(text))
    for command in COMMANDS:
        as_text, as_json = run(*command, path), run(*[word for word in command if word != "--full"], path, "--json")
        assert is_harmless(as_text)
        assert is_harmless(as_json)
        assert as_text.code in {0, 1}
        json.loads(as_json.out)


def test_a_text_cannot_look_like_another_line_of_the_list(folder: Path) -> None:
    path = write(folder, hostile_log("a\n    2  user       forged"))
    for command in COMMANDS:
        assert not [row for row in run(*command, path).out.splitlines() if row.startswith("    2  user       forged")]


def test_markup_in_data_is_shown_and_not_obeyed(folder: Path) -> None:
    path = write(folder, hostile_log("[bold]x[/bold] [link=http://e]y[/link] :smile:"))
    assert "[bold]x[/bold] [link=http://e]y[/link] :smile:" in run("history", path).out


def test_a_file_name_is_escaped_in_views_and_errors(folder: Path) -> None:
    name = "a\x1b]0;t\x07\u202e\n.jsonl"
    path = write(folder, hostile_log("x"), name=name)
    for command in COMMANDS:
        for ran in (run(*command, path), run(*command, folder / f"no{name}")):
            assert FORBIDDEN.isdisjoint(ran.out + ran.err)
            assert ran.err.count("\n") <= 1
    undecodable = os.fsdecode(bytes(folder) + b"/\xff\xfe.jsonl")
    ran = run("reconstruct", undecodable)
    assert "\\udcff" in ran.err
    assert ran.err.count("\n") == 1


def test_an_argument_is_escaped_in_a_usage_error(folder: Path) -> None:
    for args in (
        ["--\x1b[2J"],
        ["\x1b[2J"],
        ["history", "x", "-n", "\x1b[2J\n"],
        ["explain", "x", "--status", "\u202e\n"],
    ):
        ran = run(*args)
        assert ran.code == 2
        assert FORBIDDEN.isdisjoint(ran.err)
        assert ran.err.count("\n") == 1
