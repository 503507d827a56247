"""A session as a document: complete, inert, without its secrets, and in two forms as good as the session itself."""

from __future__ import annotations

import html
import json
import os
import re
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings

import rollout
from tests import strategies
from tests.builders import (
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
    user,
    user_item,
)
from tests.cli import NAME, REPOSITORY, run, turn, write
from tests.cli.test_hostile import ALL, FORBIDDEN, hostile_log
from tests.secret_kinds import KINDS, PASSWORD

CASES = REPOSITORY / "fixtures" / "cases"
FORMS = ["html", "md", "json", "jsonl", "openai"]
TOKEN = "ghp_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7d"
PICTURE = "data:image/png;base64,iVBORw0KGgo="


PROGRAMS = [
    "<environment_context>x</environment_context>",
    "<goal_context>x</goal_context>",
    "Warning: apply_patch was requested via shell. Use the apply_patch tool instead of exec_command.",
]
PERSONS = [
    "<div>why is this red?</div>",
    "<user_instructions>be brief</user_instructions>",
    "# AGENTS.md is missing, why?",
    "<skill>x</skill> does not work",
]


class Page(HTMLParser):
    """The elements of a page with their attributes, the texts of its `pre`, and the anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "input", "link"}:
            self.open.append(tag)
        if tag == "pre":
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["pre"]:
            self.texts[-1] += data


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A compaction, a turn that was taken back, a long output, a secret, a picture."""
    image = line(
        "response_item",
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": PICTURE}]},
    )
    return write(
        tmp_path,
        log(session_meta()),
        turn("t1", contextual(), user("first question"), call(), output(text="\n".join(map(str, range(500))))),
        turn("t2", user("second question"), compacted([user_item("kept"), assistant_item("summary")])),
        turn("t3", user("to be undone"), assistant("regretted")),
        log(rolled_back(1)),
        turn("t4", user(f"export GITHUB={TOKEN}"), image, assistant("`done`")),
    )


def exported(source: Path, form: str, *options: str) -> str:
    ran = run("export", source, "--format", form, *options)
    assert ran.code == 0, ran.err
    return ran.out


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_written_to_a_file_as_it_is_printed(form: str, session: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    ran = run("export", session, "--format", form, "-o", target, "--json")
    assert ran.json == {
        "format": form, "path": str(target), "bytes": target.stat().st_size, "redacted": 1, "kinds": {"github-token": 1}
    }  # fmt: skip
    assert target.read_text("utf-8").rstrip("\n") == exported(session, form).rstrip("\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([NAME, "out"])


@pytest.mark.parametrize("form", FORMS)
def test_secrets_are_masked_and_counted_unless_that_is_turned_off(form: str, session: Path) -> None:
    ran = run("export", session, "--format", form)
    assert TOKEN not in ran.out
    assert "[redacted:github-token]" in ran.out
    assert ran.err == "rollout: 1 secret masked: 1 github-token.\n"
    ran = run("export", session, "--format", form, "--no-redact")
    assert TOKEN in ran.out
    assert ran.err == "rollout: Secrets were not looked for.\n"


def test_the_form_follows_the_name_of_the_output_and_nothing_is_overwritten(session: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    assert run("export", session, "-o", target).code == 0
    before = target.read_bytes()
    assert before.startswith(b"<!doctype html>")
    ran = run("export", session, "-o", target)
    assert (ran.code, target.read_bytes()) == (2, before)
    assert "is there already; give another --output, or --force" in ran.err
    assert run("export", session, "-o", session, "-f", "jsonl").code == 2
    assert run("export", session, "-o", target, "-f", "md", "--force").code == 0
    assert target.read_text("utf-8").startswith("# Session")
    whole = session.read_bytes()
    for form in FORMS:
        ran = run("export", session, "-o", session, "-f", form, "--force")
        assert (ran.code, session.read_bytes()) == (2, whole)
        assert "is what is exported; give another --output" in ran.err
    assert run("export", session, "-o", tmp_path, "--force").code == 2
    assert "there is no folder" in run("export", session, "-o", tmp_path / "none" / "x.md").err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([NAME, "page.html"])
    assert run("export", session, "--json").code == 2
    assert run("export", tmp_path / "none.jsonl").code == 3


@pytest.mark.skipif(os.name != "posix", reason="pipes with names and links are of POSIX systems")
def test_a_stream_is_written_to_and_so_is_what_a_link_leads_to(session: Path, tmp_path: Path) -> None:
    pipe, link, page = tmp_path / "pipe", tmp_path / "link", tmp_path / "page.html"
    os.mkfifo(pipe)
    page.write_text("old")
    link.symlink_to(page)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("export", session, "-f", "html", "-o", pipe, "--force").code == 0
        piped = os.read(reader, 1 << 20)
    finally:
        os.close(reader)
    assert run("export", session, "-f", "html", "-o", link).code == 2
    assert run("export", session, "-f", "html", "-o", link, "--force").code == 0
    assert link.is_symlink()
    assert pipe.is_fifo()
    assert page.read_bytes() == piped
    assert run("export", session, "-o", os.devnull).code == 0
    assert Path(os.devnull).is_char_device()


def test_the_page_shows_every_item_once_and_folds_what_is_long(session: Path) -> None:
    page = Page(exported(session, "html"))
    assert not page.open
    whole = "\n".join(page.texts)
    for text in ("first question", "second question", "to be undone", "regretted", "kept", "summary", "`done`"):
        assert whole.count(text) == 1
    numbers = [text for text in page.texts if re.fullmatch(r"\d+(\n\d+)*", text)]
    assert "\n".join(numbers).split("\n") == [str(n) for n in range(500)]
    assert [len(text.split("\n")) for text in numbers] == [8, 492]


def test_turns_have_anchors_and_tell_what_became_of_them(session: Path) -> None:
    page = Page(exported(session, "html"))
    turns = {attrs["id"]: attrs for tag, attrs in page.elements if tag == "details" and "id" in attrs}
    assert list(turns) == ["turn-t1", "turn-t2", "turn-t3", "turn-t4"]
    assert [attrs["class"] for attrs in turns.values()] == [
        "turn replaced", "turn replaced", "turn undone", "turn"
    ]  # fmt: skip
    assert ["open" in attrs for attrs in turns.values()] == [True, True, False, True]
    links = {str(attrs["href"])[1:] for tag, attrs in page.elements if tag == "a"}
    assert links <= {str(attrs["id"]) for _, attrs in page.elements if "id" in attrs}
    assert set(turns) <= links
    assert [attrs.get("class") for tag, attrs in page.elements].count("before") == 1


def test_pictures_are_in_the_page_only_on_request_and_only_as_bytes(tmp_path: Path) -> None:
    urls = [
        PICTURE,
        "https://evil.example/x.png",
        "data:image/svg+xml;base64,PHN2Zz4=",
        'data:image/png;base64,"><script>',
    ]
    content = [{"type": "input_image", "image_url": url} for url in urls]
    path = write(tmp_path, turn("t", user("q"), item("message", role="user", content=content)))
    assert not [tag for tag, _ in Page(exported(path, "html")).elements if tag == "img"]
    shown = Page(exported(path, "html", "--images"))
    assert [attrs["src"] for tag, attrs in shown.elements if tag == "img"] == [PICTURE]


@pytest.mark.parametrize("text", [ALL, "</pre></script><script>alert(1)</script>", "'\"><img src=x onerror=alert(1)>"])
def test_nothing_that_was_recorded_becomes_an_element_or_acts_on_the_text(text: str, tmp_path: Path) -> None:
    shown = exported(write(tmp_path, hostile_log(text)), "html")
    page = Page(shown)
    plain = Page(exported(write(tmp_path, hostile_log("x"), name="plain.jsonl"), "html"))
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in plain.elements} | {"details", "summary"}
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not [key for _, attrs in page.elements for key in attrs if key.startswith("on") or key == "style"]
    assert FORBIDDEN.isdisjoint(shown)
    for attrs in (attrs for tag, attrs in page.elements if tag == "a"):
        assert str(attrs["href"]).startswith("#")


def test_markdown_keeps_what_was_recorded_in_fences_that_it_cannot_leave(tmp_path: Path) -> None:
    text = "````\n# forged\n<script>alert(1)</script>\n```"
    path = write(tmp_path, turn("t", user(text), assistant("[x](javascript:alert(1))")))
    shown = exported(path, "md")
    assert f"`````text\n{text}\n`````\n" in shown
    assert not [row for row in outside_fences(shown) if "forged" in row or "<script" in row or "javascript" in row]
    hostile = exported(write(tmp_path, hostile_log("\n# x\n<b>[y](z)"), name="hostile.jsonl"), "md")
    assert not [row for row in outside_fences(hostile) if "<b>" in row or "](" in row.replace("\\]\\(", "")]
    assert FORBIDDEN.isdisjoint(exported(write(tmp_path, hostile_log(ALL), name="all.jsonl"), "md"))


def outside_fences(text: str) -> list[str]:
    rows, fence = [], ""
    for row in text.split("\n"):
        ticks = row[: len(row) - len(row.lstrip("`"))]
        if fence:
            fence = "" if row == fence else fence
        elif len(ticks) >= 3:
            fence = ticks
        else:
            rows.append(row)
    return rows


def test_json_holds_every_record_with_its_turn_and_its_fate(session: Path) -> None:
    shown = json.loads(exported(session, "json", "--no-redact"))
    assert [each["id"] for each in shown["turns"]] == [None, "t1", "t2", "t3", "t4"]
    assert [each["stands"] for each in shown["turns"]] == [None, True, True, False, True]
    records = [record for each in shown["turns"] for record in each["records"]]
    assert [record["record"] for record in records] == [json.loads(row) for row in session.read_text().splitlines()]
    explained = list(rollout.explain(session))
    assert [(each["line"], each["status"]) for each in records] == [(each.line, each.status) for each in explained]
    assert shown["thread_id"] == shown["session"]["id"]


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir() if path.is_dir())[::6])
def test_a_session_written_as_jsonl_reconstructs_to_the_same_state(case: str, tmp_path: Path) -> None:
    expected = json.loads((CASES / case / "expected.json").read_text("utf-8"))
    source, home = CASES / case / expected["rollout"], CASES / case
    target = tmp_path / "out.jsonl"
    ran = run("export", source, "--home", home, "-o", target, "--no-redact")
    assert ran.code == 0, ran.err
    before, after = rollout.reconstruct(source, home=home), rollout.reconstruct(target, home=tmp_path)
    assert after.history == before.history
    assert after.reference_context == before.reference_context
    assert (after.previous_model, after.token_usage) == (before.previous_model, before.token_usage)
    assert after.world_state == before.world_state
    assert [t.status for t in after.turns] == [t.status for t in before.turns]


@settings(max_examples=12)
@given(data=strategies.damaged_logs())
def test_any_log_is_exported_and_as_jsonl_it_stays_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    path = write(folder, data)
    for form in FORMS:
        ran = run("export", path, "-f", form, "--no-redact", "-o", folder / form)
        assert ran.code == 0, ran.err
    assert rollout.reconstruct(folder / "jsonl").history == rollout.reconstruct(path).history
    assert not Page((folder / "html").read_text("utf-8")).open


def test_memory_does_not_follow_the_size_of_the_session(session: Path, tmp_path: Path) -> None:
    text = "\n".join(f"row {n} of the output" for n in range(1000))
    path = write(tmp_path, *(turn(f"t{n}", user("q"), output(text=text)) for n in range(200)), name="long.jsonl")
    run("export", session, "-o", tmp_path / "first.html")  # imports what there is to import
    tracemalloc.start()
    try:
        assert run("export", path, "-o", tmp_path / "long.html").code == 0
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "long.html").stat().st_size > 4_400_000
    assert peak_bytes < 3_300_000


def test_openai_gives_the_body_of_the_next_request(session: Path) -> None:
    body = json.loads(exported(session, "openai", "--no-redact", "--images"))
    state = rollout.reconstruct(session)
    assert body == {"model": "gpt-5", "input": state.for_prompt()}
    masked = json.loads(exported(session, "openai"))["input"]
    assert masked == json.loads(json.dumps(state.for_prompt(images=False)).replace(TOKEN, "[redacted:github-token]"))


def test_a_moment_of_a_session_is_exported_as_it_was_then(session: Path, tmp_path: Path) -> None:
    shown = json.loads(exported(session, "json", "--at", "t3"))
    assert [(each["id"], each["stands"]) for each in shown["turns"][1:]] == [("t1", True), ("t2", True), ("t3", True)]
    target = tmp_path / "then.jsonl"
    assert run("export", session, "-o", target, "--at", "t1", "--no-redact").code == 0
    assert session.read_bytes().startswith(target.read_bytes())
    assert rollout.reconstruct(target).history == rollout.reconstruct(session, at="t1").history
    then = [(each.line, each.status, each.turn_id) for each in rollout.explain(session, at="t1")]
    assert then == [(each.line, each.status, each.turn_id) for each in rollout.explain(target)]
    assert json.loads(exported(session, "openai", "--at", "t1"))["input"] == rollout.reconstruct(target).for_prompt()


@pytest.mark.parametrize("form", FORMS)
def test_no_form_tells_a_secret_wherever_it_stands(form: str, tmp_path: Path) -> None:
    """In the words of people and programs, arguments, outputs, reasoning, names, settings; cut in two, escaped."""
    whole = "\n".join(text for text, _ in KINDS.values())
    halves = [{"type": "input_text", "text": text} for text in (f"it is {TOKEN[:12]}", f"{TOKEN[12:]} there")]
    cut = {"type": "message", "role": "user", "content": halves}
    escaped = json.dumps({"cmd": whole}).replace("/", "\\/").replace("+", "\\u002b")
    path = write(
        tmp_path,
        log(session_meta(cwd=f"/home/{TOKEN}", note=whole)),
        turn(
            "t1",
            user(f"<b>{whole}</b>"),
            line("response_item", cut),
            line("response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": whole}]}),
            line("response_item", {"type": "function_call", "name": "f", "arguments": escaped, "call_id": "c"}),
            output("c", f"`{whole}`"),
            line("response_item", {"type": "local_shell_call", "call_id": "d", "action": {
                "type": "exec", "command": ["curl", "-u", f"me:{PASSWORD}", "https://x.org"]}}),
            assistant(whole),
            compacted([user_item(whole)]),
            event("error", message=whole),
        ),
    )  # fmt: skip
    shown = exported(path, form)
    pieces = [secret for _, secret in KINDS.values() if secret] + [TOKEN, TOKEN[:12], TOKEN[12:], PASSWORD]
    pieces += [row for text, secret in KINDS.values() if not secret for row in text.splitlines() if len(row) == 64]
    assert [piece for piece in pieces if piece in shown or html.escape(piece) in shown] == []
    assert "[redacted:" in shown or "\\[redacted:" in shown


@pytest.mark.parametrize(("text", "is_programs"), [*((t, True) for t in PROGRAMS), *((t, False) for t in PERSONS)])
def test_what_the_program_wrote_is_told_by_the_one_table(tmp_path: Path, text: str, is_programs: bool) -> None:
    """The same in the page, in the headings of the turns and in the newest thing that `reconstruct` shows."""
    path = write(tmp_path, log(session_meta()), turn("t1", user("first")), turn("t2", user(text), assistant("a")))
    page = run("export", path, "--format", "html").out
    assert re.findall(r'<article class="(user|context) ', page) == ["user", "context" if is_programs else "user"]
    assert ("No message from the user" in page) is is_programs
    assert ("No message from the user" in run("export", path, "--format", "md").out) is is_programs
    rows = [row.split(None, 1) for row in run("reconstruct", path).out.splitlines()]
    assert dict(row for row in rows if len(row) == 2)["user"] == ("first" if is_programs else text)
