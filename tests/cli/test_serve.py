"""serve: a process that answers until it is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders import log, session_meta, user
from tests.cli import command, environment, run, write
from tests.recordings import CONTEXT, QUESTION, SECOND, TOOLS


@contextmanager
def serving(*args: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program while it serves; it is killed behind the block if it has not ended."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("serve", *args), env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode()


def ask(url: str, *items: Any, **more: Any) -> Any:
    body = json.dumps({"input": items, **more}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/responses", body), timeout=20) as answer:
        return json.load(answer)


def test_it_prints_where_it_is_tells_each_request_and_ends_cleanly_on_an_interrupt(tmp_path: Path) -> None:
    with serving(write(tmp_path, TOOLS)) as process:
        begin = read_line(process)
        url = begin.split()[0]
        assert begin == f"{url}  answers 3 recorded calls; Ctrl-C ends it\n"
        assert ask(url, CONTEXT, QUESTION, model="gpt-4")["output"][1]["name"] == "f"
        assert (
            read_line(process)
            == 'answered call 1 of line 6; model: from character 4 on: recorded "gpt-5.4", asked "gpt-4"\n'
        )
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(url, CONTEXT, SECOND)
        assert read_line(process).startswith(
            "refused  the request departs from call 1 in line 6: input[1] (user message"
        )
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_its_json_is_one_document_a_line_and_its_options_say_what_may_be_different(tmp_path: Path) -> None:
    path = write(tmp_path, TOOLS)
    with serving(path, "--json", "--strict", "--ignore", "context", "--ignore", "outputs") as process:
        began = json.loads(read_line(process))
        assert (set(began), began["calls"], began["path"]) == ({"url", "calls", "path"}, 3, str(path))
        assert ask(began["url"], QUESTION)["output"][1]["name"] == "f"
        assert json.loads(read_line(process)) == {"call": 1, "line": 6, "streamed": False, "notes": [], "error": None}
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(began["url"], CONTEXT, QUESTION, model="gpt-4")
        assert "in its model" in json.loads(read_line(process))["error"]


def test_hostile_requests_are_told_in_one_printable_line(tmp_path: Path) -> None:
    with serving(write(tmp_path, TOOLS)) as process:
        url = read_line(process).split()[0]
        with pytest.raises(urllib.error.HTTPError):
            ask(url, CONTEXT, {"role": "user", "content": "\x1b]0;x\x07\n\u202eevil"})
        told = read_line(process)
        assert told.startswith("refused  ")
        assert told.endswith("\n")
        assert told[:-1].isprintable()


def test_a_session_without_answers_and_a_port_that_is_none_are_wrong_usage(tmp_path: Path) -> None:
    ran = run("serve", write(tmp_path, log(session_meta(), user("q"))))
    assert (ran.code, ran.out) == (2, "")
    assert "no model answered anything in it; give another rollout" in ran.err
    assert run("serve", write(tmp_path, TOOLS), "--port", "70000").code == 2


def test_its_help_shows_how_a_program_is_pointed_to_it() -> None:
    assert "OPENAI_BASE_URL" in run("serve", "--help").out
