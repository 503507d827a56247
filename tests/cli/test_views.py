"""What each command shows of one log, as text and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rollout_cli.units import local_time

from tests.builders import (
    THREAD,
    aborted,
    assistant,
    assistant_item,
    call,
    compacted,
    contextual,
    event,
    item,
    line,
    log,
    output,
    rolled_back,
    session_meta,
    started,
    token_count,
    user,
    user_item,
    world_state,
)
from tests.cli import run, turn, write

LONG = 12345678901234567890123


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """Two turns that stand and, between them, one that was taken back."""
    return write(
        tmp_path,
        log(session_meta(cli_version="0.169.0")),
        turn("t1", contextual(), user("fix the tests"), call(), output(), assistant("done"), token_count(1234)),
        turn("t2", user("and now break them"), assistant("no")),
        log(rolled_back(1)),
        turn("t3", world_state({"shell": "bash"}), user("second\nquestion"), assistant("an answer")),
    )


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A compaction, an interrupted turn, a garbage line, a torn tail."""
    return write(
        tmp_path,
        log(session_meta()),
        turn("t1", user("old")),
        log(b"garbage", compacted([user_item("kept"), assistant_item("summary")])),
        log(started("t2"), user("new"), aborted("t2")),
        b'{"timestamp":"2026',
    )


def test_reconstruct_names_the_thread_the_model_and_the_last_exchange(short: Path) -> None:
    ran = run("reconstruct", short)
    assert (ran.code, ran.err) == (0, "")
    facts = {row[:12].strip(): row[12:] for row in ran.out.splitlines()}
    assert facts["session"] == THREAD
    assert facts["file"] == str(short)
    assert "/p" in facts["where"]
    assert "0.169.0" in facts["where"]
    assert facts["model"] == "gpt-5"
    assert facts["context"] == "gpt-5  t3"
    assert facts["history"] == "7 items"
    assert facts["user"] == "second question"
    assert facts["assistant"] == "an answer"
    assert facts["tokens"] == "total 1,234"
    assert facts["world"] == "shell"
    assert facts["damage"] == "none met"
    size_kib = short.stat().st_size / 1024
    assert re.fullmatch(rf"[0-9.]+ KiB of {size_kib:.1f} KiB, [0-9]+ records", facts["read"])


def test_reconstruct_of_an_empty_log_says_what_there_is_not(tmp_path: Path) -> None:
    ran = run("reconstruct", write(tmp_path, log(session_meta())))
    assert ran.code == 0
    facts = {row[:12].strip(): row[12:] for row in ran.out.splitlines()}
    assert facts["model"] == "(none yet)"
    assert facts["context"].startswith("none: ")
    assert facts["history"] == "0 items"
    assert facts["tokens"] == "(not recorded)"
    assert facts["world"] == "(none)"


def test_reconstruct_json_has_the_keys_that_scripts_rely_on_in_their_order(short: Path) -> None:
    document = run("reconstruct", short, "--json").json
    assert list(document) == [
        *[
            "history",
            "prompt",
            "previous_model",
            "reference_context",
            "session",
            "world_state",
            "token_usage",
            "damage",
        ],
        *["bytes_read", "records_decoded", "base_instructions", "thread_id", "path"],
    ]
    assert document["previous_model"] == "gpt-5"
    assert document["reference_context"] == {"turn_id": "t3", "model": "gpt-5"}
    assert document["session"]["cli_version"] == "0.169.0"
    assert document["world_state"] == {"shell": "bash"}
    assert document["token_usage"] == {"total_tokens": 1234}
    assert document["damage"] == []
    assert document["bytes_read"] >= short.stat().st_size
    assert document["thread_id"] == THREAD
    assert [each.get("role", each["type"]) for each in document["history"]] == [
        *["user", "user", "function_call", "function_call_output", "assistant", "user", "assistant"]
    ]


def test_reconstruct_json_lists_damage_by_line_offset_and_reason(broken: Path) -> None:
    ran = run("reconstruct", broken, "--json")
    assert ran.code == 0
    assert [list(met) for met in ran.json["damage"]] == [["line", "offset", "reason"]] * len(ran.json["damage"])
    assert broken.stat().st_size - 18 in [met["offset"] for met in ran.json["damage"]]


def test_history_json_splices_the_recorded_bytes_of_each_item(tmp_path: Path) -> None:
    odd = b'{"type":"message","role":"user","n":%d,"f":1.10e5,  "content":[]}' % LONG
    recorded = line("response_item", 0).replace(b'"payload":0', b'"payload":' + odd)
    path = write(tmp_path, log(session_meta(), recorded))
    assert odd.decode() in run("history", path, "--json").out
    assert odd.decode() in run("reconstruct", path, "--json").out
    assert str(LONG) in run("history", path, "--json", "--prompt").out


def test_history_lists_an_item_a_line_with_its_role_or_kind(short: Path) -> None:
    ran = run("history", short)
    assert [row.split(None, 2) for row in ran.out.splitlines()] == [
        ["1", "user", "<environment_context>x</environment_context>"],
        ["2", "user", "fix the tests"],
        ["3", "call", "f({})"],
        ["4", "output", "out"],
        ["5", "assistant", "done"],
        ["6", "user", "second question"],
        ["7", "assistant", "an answer"],
    ]


def test_history_n_shows_the_newest_items_under_their_own_numbers(short: Path) -> None:
    assert [row.split()[0] for row in run("history", short, "-n", "2").out.splitlines()] == ["6", "7"]
    assert len(run("history", short, "-n", "2", "--json").json) == 2
    assert len(run("history", short, "-n", "2", "--prompt", "--json").json) == 2
    assert run("history", short, "-n", "0", "--json").json == []
    assert len(run("history", short, "-n", "99", "--json").json) == 7
    assert len(run("history", short, "-n", "99", "--prompt", "--json").json) == 7


def test_history_shortens_a_text_and_full_prints_all_of_it_indented(tmp_path: Path) -> None:
    text = "x" * 5000 + "\n    7  user       forged"
    path = write(tmp_path, log(session_meta(), user(text)))
    assert f"… ({len(text):,} characters)" in run("history", path).out
    rows = run("history", path, "--full").out.splitlines()
    assert rows[1:] == ["      " + row for row in text.split("\n")]


def test_history_prompt_gives_a_call_without_output_its_output(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta()), turn("t1", user("q"), call()))
    assert [row.split()[1:] for row in run("history", path, "--prompt").out.splitlines()] == [
        ["user", "q"],
        ["call", "f({})"],
        ["output", "aborted"],
    ]
    assert [each["type"] for each in run("history", path, "--prompt", "--json").json][-1] == "function_call_output"


def text_part(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, "reasoning  hm"),
        ({"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}, "reasoning  (encrypted)"),
        (
            {"type": "local_shell_call", "status": "completed", "action": {"type": "exec", "command": ["ls", "-l"]}},
            "call       shell(ls -l)",
        ),
        ({"type": "web_search_call", "action": {"type": "search", "query": "why"}}, "call       web_search(why)"),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"},
            "call       apply_patch(*** Begin)",
        ),
        (
            {"type": "function_call_output", "output": [{"type": "input_image", "image_url": "data:"}]},
            "output     [input_image]",
        ),
        ({"type": "tool_search_output", "status": "s", "execution": "e", "tools": ["inner"]}, "output     inner"),
        (
            {"type": "agent_message", "author": "/root", "recipient": "/a", "content": [text_part("go")]},
            "agent      /root to /a: go",
        ),
        ({"type": "new_kind", "x": LONG}, f'new_kind   {{"type":"new_kind","x":{LONG}}}'),
        (
            {"type": "message", "role": "user", "content": [text_part("1"), {"type": "input_image", "file_id": "f"}]},
            "user       1 [input_image]",
        ),
        (
            {"type": "tool_search_call", "name": ["x"], "execution": "e", "arguments": {"a": 1}},
            'call       (no name)({"a":1})',
        ),
        ({"type": "web_search_call"}, "call       web_search()"),
        ({"type": "compaction", "encrypted_content": "gAAA"}, "compaction (encrypted summary)"),
    ],
)
def test_history_puts_every_kind_of_item_in_words(tmp_path: Path, recorded: dict[str, object], shown: str) -> None:
    path = write(tmp_path, log(session_meta(), line("response_item", recorded)))
    assert run("history", path).out == f"    1  {shown}\n"


def test_turns_lists_the_standing_ones_and_all_marks_the_undone(short: Path) -> None:
    rows = [row.split() for row in run("turns", short).out.splitlines()]
    assert rows[0] == ["#", "id", "status", "started", "took", "items", "user"]
    assert [(row[0], row[1], row[2]) for row in rows[1:]] == [("1", "t1", "completed"), ("2", "t3", "completed")]
    assert rows[2][-2:] == ["second", "question"]
    rows = [row.split() for row in run("turns", short, "--all").out.splitlines()]
    assert [(row[0], row[1], row[2]) for row in rows[1:]] == [
        *[("1", "t1", "completed"), ("-", "t2", "undone"), ("2", "t3", "completed")]
    ]


def test_turns_json_has_the_keys_that_scripts_rely_on_in_their_order(short: Path) -> None:
    listed = run("turns", short, "--json").json
    keys = [
        "id",
        "derived",
        "status",
        "stands",
        "started",
        "ended",
        "line",
        "offset",
        "end_offset",
        "items",
        "user",
        "model",
        "plans",
        "session_id",
        "tags",
    ]
    assert [list(each) for each in listed] == [keys, keys]
    first = listed[0]
    assert (first["id"], first["derived"], first["status"], first["stands"]) == ("t1", False, "completed", True)
    assert (first["line"], first["items"], first["user"], first["model"]) == (2, 5, "fix the tests", "gpt-5")
    assert short.read_bytes()[first["offset"] :].startswith(started("t1"))
    assert [each["stands"] for each in run("turns", short, "--all", "--json").json] == [True, False, True]


def test_turns_names_an_interrupted_turn_and_its_time(tmp_path: Path) -> None:
    start = line("event_msg", {"type": "task_started", "turn_id": "t9"}, timestamp="2026-03-20T10:00:07.500Z")
    path = write(tmp_path, log(session_meta(), start, user("q")))
    row = run("turns", path).out.splitlines()[1].split()
    assert row[:5] == ["1", "t9", "interrupted", *local_time("2026-03-20T10:00:07.500Z").split()]


def test_explain_tells_what_became_of_each_line_and_by_whom(short: Path) -> None:
    heading, *rows = run("explain", short).out.splitlines()
    assert heading.split() == ["line", "byte", "kind", "turn", "status"]
    assert len(rows) == short.read_bytes().count(b"\n")
    marker = 1 + next(i for i, each in enumerate(short.read_bytes().split(b"\n")) if b"thread_rolled_back" in each)
    broke = next(row for row in rows if row.split()[0] == str(marker - 3))
    assert "t2" in broke
    assert broke.endswith(f"rolled back by line {marker}")
    assert sum(row.endswith("visible") for row in rows) == 7


def test_explain_tells_of_a_compaction_and_of_damage(broken: Path) -> None:
    rows = {int(row.split()[0]): row for row in run("explain", broken).out.splitlines()[1:]}
    assert rows[4].endswith("replaced by line 7")
    assert "damaged: " in rows[6]


def test_explain_json_is_one_array_with_an_object_a_line(short: Path) -> None:
    ran = run("explain", short, "--json")
    assert [list(each) for each in ran.json] == [
        [
            "line",
            "offset",
            "kind",
            "turn_id",
            "status",
            "by",
            "by_offset",
            "by_inherited",
            "reason",
            "inherited",
            "path",
        ]
    ] * short.read_bytes().count(b"\n")
    content = short.read_bytes()
    assert all(content[each["offset"] - 1 : each["offset"]] in {b"", b"\n"} for each in ran.json)
    assert len(ran.out.splitlines()) == len(ran.json)


def test_explain_line_tells_one_line_in_a_sentence(short: Path) -> None:
    marker = 1 + next(i for i, each in enumerate(short.read_bytes().split(b"\n")) if b"thread_rolled_back" in each)
    said = run("explain", short, "--line", str(marker - 3)).out
    assert said.startswith(f"Line {marker - 3} (byte ")
    assert said.endswith(f"rolled back by line {marker}.\n")
    (found,) = run("explain", short, "--line", "2", "--json").json
    assert found["line"] == 2


def test_explain_line_beyond_the_log_is_wrong_usage(short: Path) -> None:
    for more in ([], ["--json"]):
        ran = run("explain", short, "--line", "999", *more)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("rollout: there is no line 999")


def test_explain_status_shows_only_lines_of_which_this_became(short: Path) -> None:
    statuses = [each["status"] for each in run("explain", short, "--status", "rolled_back", "--json").json]
    assert set(statuses) == {"rolled_back"}
    both = run("explain", short, "--status", "visible", "--status", "rolled_back", "--json").json
    assert {each["status"] for each in both} == {"visible", "rolled_back"}


def test_verify_of_a_sound_log_is_ok_and_exits_with_zero(short: Path) -> None:
    ran = run("verify", short)
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("ok ")
    document = run("verify", short, "--json").json
    assert list(document) == ["ok", "damaged_lines", "damage", "notes", "lines", "records", "path"]
    assert document["ok"] is True
    assert document["damaged_lines"] == 0
    assert document["lines"] == short.read_bytes().count(b"\n")


def test_verify_of_a_damaged_log_lists_the_damage_and_exits_with_one(broken: Path) -> None:
    ran = run("verify", broken)
    assert ran.code == 1
    assert ran.err == ""
    damaged = [row for row in ran.out.splitlines() if row.startswith("damaged ")]
    assert damaged[0].startswith("damaged  line 6: ")
    assert damaged[-1].endswith("notes")
    ran = run("verify", "--json", broken)
    assert ran.code == 1
    assert ran.json["ok"] is False
    assert ran.json["damaged_lines"] == 2
    assert [list(met) for met in ran.json["damage"]] == [["line", "offset", "kind", "reason", "remedy", "path"]] * 2
    assert all(met["remedy"] for met in ran.json["damage"])


def test_verify_notes_a_doubled_line_and_still_exits_with_zero(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), user("q"), assistant("a"), assistant("a")))
    ran = run("verify", path, "--json")
    assert ran.code == 0
    assert ran.json["notes"]
    assert all(list(note) == ["line", "offset", "kind", "reason", "remedy", "path"] for note in ran.json["notes"])
    assert "note " in run("verify", path).out


def test_every_json_output_is_one_document_and_a_line_end(short: Path) -> None:
    for command in ("reconstruct", "history", "turns", "explain", "verify"):
        out = run(command, short, "--json").out
        assert out.endswith("\n")
        json.loads(out)


def test_unknown_events_and_items_without_a_place_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), event("never_heard_of"), item("strange", a=[{}]), line("novel", {})))
    for command in ("reconstruct", "history", "turns", "explain", "verify"):
        assert run(command, path).code == 0
