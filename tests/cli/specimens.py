"""A home to be looked at: four small sessions with all that is hard to lay out, the same at every time and place.

The first holds wide and right-to-left text, control characters, calls that fail, a turn taken back, a compaction, an
interrupted turn, a torn line and a torn tail. The second is a fork of it, the third a subagent of it in a folder with a
wide name, the fourth an archived one in which a compaction was taken back.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import builders as b

NOW = datetime.datetime(2026, 3, 25, 12, 0, tzinfo=datetime.UTC)
MAIN, FORK, SUBAGENT, ARCHIVED = (f"019d0{day}00-5a00-7000-8000-00000000000{day}" for day in (1, 2, 3, 4))
TURNS = tuple(f"019d01{n:02}-77e1-7c51-a520-ff82e42b15a{n}" for n in range(8))
QUESTION = "修复解析器 \U0001f527 and keep the tests green, please"
HEBREW = "תודה רבה, now in שלום order"
HOSTILE = "print \x1b[31mred\x1b[0m, \u202egpj.exe\u202c and\ta tab\r\n" + "a long line " * 20
WINDOW_TOKENS = 272_000


def a_home(home: Path) -> Path:
    """The four sessions in files that nobody wrote to for an hour."""
    main = _main()
    _put(home, MAIN, "21", main)
    base = {"thread_id": MAIN, "end_byte_offset": main.index(b"\n", main.index(b"task_complete")) + 1}
    _put(home, FORK, "22", _fork(base))
    _put(home, SUBAGENT, "23", _subagent())
    _put(home, ARCHIVED, "24", _archived(), folder="archived_sessions")
    name = {"id": FORK, "thread_name": "解析器 rewrite", "updated_at": "2026-03-22T10:00:00Z"}
    (home / "session_index.jsonl").write_bytes(b.log(b.dump(name)))
    return home


def _main() -> bytes:
    patch = {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c2", "input": "*** Begin Patch\n*** End"}
    return (
        _spell(
            "2026-03-21T09:00:00",
            _meta(MAIN, git={"branch": "main"}),
            *_begin(0),
            b.permissions("Approval policy is never."),
            b.contextual(text="\n  <cwd>/home/dev/project</cwd>\n  <shell>bash</shell>\n"),
            b.user(QUESTION),
            b.item("reasoning", summary=[{"type": "summary_text", "text": "**Looking at the parser**"}]),
            _call("c1", "pytest -q tests/test_parser.py"),
            _output("c1", 1, "FAILED tests/test_parser.py::test_名前 - AssertionError: '｢' != '「'"),
            b.line("response_item", patch),
            b.item("custom_tool_call_output", call_id="c2", output="Success. Updated: M parser.py"),
            _metered(18_400, 18_400),
            b.assistant("The parser reads “全角” now.\n\n- `parser.py`: one line\n- tests: 12 passed"),
            b.completed(TURNS[0]),
        )
        + _spell(
            "2026-03-21T09:12:00",
            *_begin(1),
            b.user("and delete the old tests"),
            b.assistant("Deleted."),
            _metered(41_900, 23_500),
            b.completed(TURNS[1]),
            b.rolled_back(1),
        )
        + _spell(
            "2026-03-21T11:30:00",
            *_begin(2, model="gpt-5.4-mini"),
            b.user(HEBREW),
            _call("c3", "cat notes.txt"),
            _output("c3", 0, HOSTILE),
            b.compacted([b.user_item(QUESTION), b.user_item("Summary: the parser was fixed.")]),
            b.context(TURNS[2], "gpt-5.4-mini", cwd="/home/dev/project", effort="low", approval_policy="never"),
            _metered(60_000, 9_000),
            b.assistant("\U0001f469\u200d\U0001f4bb done"),
            b.completed(TURNS[2]),
        )
        + b'{"timestamp":"2026-03-21T11:30:40.000Z","type":"response_item","payl'
        + _spell(
            "2026-03-21T11:31:00",
            *_begin(3, model="gpt-5.4-mini"),
            b.user("one more thing"),
            b.contextual("turn_aborted", "The user interrupted the previous turn."),
            b.aborted(TURNS[3]),
        )
        + b'{"timestamp":"2026-03-21T11'
    )


def _fork(base: dict[str, object]) -> bytes:
    return _spell(
        "2026-03-22T08:00:00",
        _meta(FORK, forked_from_id=MAIN, history_base=base, git={"branch": "parser-rewrite-in-small-steps"}),
        *_begin(4),
        b.user("Write it anew, without regular expressions"),
        b.assistant("It is written anew."),
        _metered(30_000, 21_000),
        b.completed(TURNS[4]),
    )


def _subagent() -> bytes:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": MAIN, "depth": 1}}}
    return _spell(
        "2026-03-23T08:00:00",
        _meta(SUBAGENT, source=source, cwd="/home/dev/資料/とても長いプロジェクト名", git={"branch": "機能"}),
        *_begin(5),
        b.inter_agent("Read 資料 and report", author="main", recipient="reader"),
        b.item("web_search_call", action={"type": "search", "query": "全角 parser"}),
        b.assistant("Report: 3 files."),
        _metered(4_000, 4_000),
        b.completed(TURNS[5]),
    )


def _archived() -> bytes:
    return _spell(
        "2026-03-24T08:00:00",
        _meta(ARCHIVED, cwd="/srv/work"),
        *_begin(6),
        b.user("Tidy up"),
        b.assistant("Tidy."),
        b.completed(TURNS[6]),
        *_begin(7),
        b.user("Tidier"),
        b.compacted([b.user_item("Summary: it is tidy.")]),
        b.assistant("As tidy as can be."),
        b.completed(TURNS[7]),
        b.rolled_back(1),
    )


def _spell(begin: str, *lines: bytes) -> bytes:
    """The lines as a log, three seconds after one another."""
    moment = datetime.datetime.fromisoformat(begin)
    times = (moment + datetime.timedelta(seconds=3 * n) for n in range(len(lines)))
    return b.log(
        *(
            line.replace(b.TIME.encode(), f"{time:%Y-%m-%dT%H:%M:%S}.000Z".encode())
            for line, time in zip(lines, times, strict=True)
        )
    )


def _meta(thread: str, **keys: object) -> bytes:
    told = {"cwd": "/home/dev/project", "originator": "codex_cli_rs", "cli_version": "0.169.0", "source": "cli"}
    return b.session_meta(thread, **{**told, **keys})


def _begin(n: int, model: str = "gpt-5.4") -> Iterator[bytes]:
    yield b.event("task_started", turn_id=TURNS[n], model_context_window=WINDOW_TOKENS)
    yield b.context(TURNS[n], model, cwd="/home/dev/project", effort="high", approval_policy="never")


def _call(call_id: str, command: str) -> bytes:
    return b.item("function_call", name="exec_command", arguments=json.dumps({"cmd": command}), call_id=call_id)


def _output(call_id: str, code: int, text: str) -> bytes:
    return b.output(call_id, f"Wall time: 0.4 seconds\nProcess exited with code {code}\nOutput:\n{text}\n")


def _metered(total: int, last: int) -> bytes:
    def usage(tokens: int) -> dict[str, Any]:
        output = tokens // 20
        return {
            "input_tokens": tokens - output,
            "cached_input_tokens": tokens // 2,
            "output_tokens": output,
            "reasoning_output_tokens": output // 4,
            "total_tokens": tokens,
        }

    totals = {"total_token_usage": usage(total), "last_token_usage": usage(last)}
    return b.event("token_count", info={**totals, "model_context_window": WINDOW_TOKENS})


def _put(home: Path, thread: str, day: str, data: bytes, folder: str = "") -> None:
    path = home / (folder or f"sessions/2026/03/{day}") / f"rollout-2026-03-{day}T10-00-00-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    rested = NOW.timestamp() - 3600
    os.utime(path, (rested, rested))
