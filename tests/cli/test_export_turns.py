"""Turns in an exported document: which of them stand, what each is called, and one anchor for each."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from rollout_cli.export.chronicle import Chronicle
from rollout_cli.export.page import to_page
from rollout_cli.export.presenting import Presenter

import rollout
from tests.builders import (
    agent_message,
    assistant,
    bare_item,
    bare_meta,
    compacted,
    contextual,
    event,
    inter_agent,
    legacy_compacted,
    log,
    permissions,
    rolled_back,
    session_meta,
    token_count,
    user,
    user_item,
    user_message,
)
from tests.cli import run, turn, write
from tests.cli.test_export import CASES, TOKEN, Page, exported
from tests.cli.test_hostile import hostile_log

COMMAND = "\n<command>\nls -la\n</command>\n<result>\nExit code: 0\n</result>\n"
ACTION = user("<user_action>\n  <context>User initiated a review task.</context>\n</user_action>")
UNSAID = {
    "Compaction": [legacy_compacted("so far")],
    "From another agent: look at it": [inter_agent("look at it", author="/root")],
    "From another agent: and at this": [agent_message("and at this"), assistant("done")],
    "Review: current changes": [event("entered_review_mode", user_facing_hint="current changes"), ACTION],
    "Review": [event("entered_review_mode"), assistant("fine")],
    "Shell command: ls -la": [contextual("user_shell_command", COMMAND)],
    "Only events": [token_count(1)],
    "No message from the user": [assistant("unasked")],
    "what an event says": [user_message("what an event says"), b'{"timestamp":"x","type":"respon'],
    "[input_image]": [bare_item({"type": "message", "role": "user", "content": [{"type": "input_image"}]})],
    "An empty message": [user("  \n ")],
    "said after a compaction": [compacted([]), user("said after a compaction")],
}


def headings(page: str) -> list[str]:
    """The headings in the page, as they are read."""
    return [unescape(re.sub("<[^>]*>", "", found)) for found in re.findall("<h2>(.*?)</h2>", page)]


def page_of(source: Path, home: Path) -> str:
    """The page without the command around it, which takes longer for a short session."""
    chronicle, presenter = Chronicle(str(source), str(home)), Presenter(None)
    return "".join(to_page(chronicle, presenter, str))


def test_a_turn_is_struck_through_in_every_recorded_case_if_and_only_if_it_does_not_stand() -> None:
    cases = sorted(path.parent for path in CASES.glob("*/expected.json"))
    assert len(cases) == 135
    for case in cases:
        said = json.loads((case / "expected.json").read_text("utf-8"))
        source, home = case / said["rollout"], case
        turns = rollout.turns(source, home=home)
        undone = [n for n, each in enumerate(turns, 1) if not each.stands]
        assert len(turns) - len(undone) == len(said["expect"]["turns"]), case.name
        page = page_of(source, home)
        assert [int(n) for n in re.findall(r"<h2><del>(\d+)\. ", page)] == undone, case.name
        assert page.count("<del>") == 2 * len(undone), case.name
        assert page.count('<details class="turn undone"') == len(undone), case.name
        shown = re.search(r'<dt>turns</dt><dd dir="auto">(\d+)(?:, (\d+) of them taken back)?', page)
        assert shown is not None
        assert [int(n or 0) for n in shown.groups()] == [len(turns), len(undone)], case.name
        assert not [each for each in headings(page) if not re.search(r"\w", each.partition(".")[2] or each)], case.name


def test_markdown_strikes_the_same_turns(tmp_path: Path) -> None:
    for name in ("o117_rollback_remote_over", "o117_rollback1", "h_cmp_rb_into"):
        source = CASES / name / "rollout.jsonl"
        struck = [int(n) for n in re.findall(r"(?m)^## ~~Turn (\d+)", exported(source, "md"))]
        assert struck == [n for n, each in enumerate(rollout.turns(source), 1) if not each.stands]


def test_a_turn_that_stands_without_any_of_its_items_says_so_and_is_called_by_what_was_said(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        turn("t1", user("one")),
        turn("t2", permissions(), user(f"two {TOKEN}"), assistant("a")),
        log(rolled_back(1), token_count(3)),
    )
    page = exported(path, "html")
    assert headings(page) == ["1. one", "2. two [redacted:github-token]"]
    assert '<dd dir="auto">2, 1 with all items taken back</dd>' in page
    assert '<details class="turn emptied" id="turn-t2" open>' in page
    assert page.count("all its items taken back</span>") == 2
    assert "1 secret masked" in page
    assert "## Turn 2 (completed, 2026-03-20 10:00, all its items taken back)\n" in exported(path, "md")


@pytest.mark.parametrize("heading", UNSAID)
def test_a_turn_without_a_users_words_is_called_by_what_it_is(heading: str, tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta()), turn("t1", user("first")), turn("t2", *UNSAID[heading]))
    page = exported(path, "html")
    assert headings(page)[-1] == f"2. {heading}"
    assert page.count(f">{heading.partition(':')[0]}") >= 2
    ours = re.search(r"## Turn 2(?:: (.*))? \(", exported(path, "md"))
    assert ours is not None
    assert ours[1] in {None, heading.partition(": ")[0]}


def test_a_session_in_which_nothing_was_said_says_that(tmp_path: Path) -> None:
    for n, lines in enumerate([b"", log(session_meta()), log(bare_meta())]):
        path = write(tmp_path, lines, name=f"{n}.jsonl")
        assert ">Nothing was said in this session.<" in exported(path, "html")
        assert "\nNothing was said in this session.\n" in exported(path, "md")
    assert "Nothing was said" not in exported(write(tmp_path, turn("t", user("q"))), "html")


def test_no_two_elements_share_an_anchor_and_every_link_has_one(tmp_path: Path) -> None:
    glued = user("one") + b"\x00" + assistant("two") + b"\n"
    path = write(
        tmp_path,
        turn("t", user("a"), legacy_compacted()),
        turn("t", user("again")),
        turn("number-2", glued[:-1], user("b")),
        turn("x y", user("c")),
        log(rolled_back(1)),
        turn("t", user("d"), compacted([user_item("e")])),
    )
    for source in (path, write(tmp_path, hostile_log("x"), name="x.jsonl"), CASES / "o117_rollback2/rollout.jsonl"):
        page = Page(exported(source, "html"))
        anchors = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
        assert len(anchors) == len(set(anchors))
        assert {str(attrs["href"])[1:] for tag, attrs in page.elements if tag == "a"} <= set(anchors)


def test_a_page_without_its_script_has_no_toolbar_that_does_nothing(tmp_path: Path) -> None:
    page = Page(exported(write(tmp_path, turn("t", user("q"))), "html"))
    hidden = [attrs.get("class") for _, attrs in page.elements if "hidden" in attrs]
    assert hidden == ["bar", "keys"]


def test_a_long_message_is_a_heading_of_one_line_cut_between_words(tmp_path: Path) -> None:
    path = write(tmp_path, turn("t1", user("word \n" * 300)), turn("t2", user("\n" * 5000 + "x" * 5000)))
    first, second = headings(exported(path, "html"))
    assert re.fullmatch(r"1\. (word ){19}word…", first)
    assert second == f"2. {'x' * 100}…"


def test_one_of_something_is_not_told_as_many(tmp_path: Path) -> None:
    path = write(tmp_path, turn("t", user("q"), compacted([user_item("s")])), b"{broken\n")
    page = exported(path, "html")
    for words in ("<summary>1 turn<", ">1 turn, 1 item, replaced by", "became 1 item<", ">1 line<"):
        assert words in page
    assert run("export", path, "-f", "md").out.count("- damage: 1 line\n") == 1


def test_an_item_that_is_gone_links_to_what_took_it(tmp_path: Path) -> None:
    path = write(tmp_path, turn("t1", user("q"), assistant("a")), log(rolled_back(1)))
    page = exported(path, "html")
    assert page.count('<a class="badge" href="#line-6">taken back by line 6</a>') == 2
    assert '<p class="note" id="line-6">turns taken back: 1</p>' in page
