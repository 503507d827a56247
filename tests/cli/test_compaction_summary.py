"""What a compaction left of the history before it is told as that everywhere, and not as a user's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout.dialects.codex.contextual import SUMMARY_OPENING
from tests.builders import assistant, compacted, legacy_compacted, log, session_meta, user, user_item
from tests.cli import run, turn, write

OPENING = f"{SUMMARY_OPENING} It found a bug."
COMPACTIONS = {
    "begins as summaries do": (compacted([user_item("q1"), user_item(OPENING)]), OPENING),
    "is the message": (compacted([user_item("q1"), user_item("In short.")], message="In short."), "In short."),
    "of the old kind": (legacy_compacted("In short."), "In short."),
}


@pytest.fixture(params=COMPACTIONS)
def compaction(request: pytest.FixtureRequest) -> tuple[bytes, str]:
    """A record, and the text of its summary."""
    return COMPACTIONS[request.param]


@pytest.fixture
def path(compaction: tuple[bytes, str], tmp_path: Path) -> Path:
    begin = log(session_meta()) + turn("t1", user("q1"), assistant("a1"))
    return write(tmp_path, begin, log(compaction[0]))


def test_history_and_diff_label_it_and_show_does_not_take_it_for_the_last_words(
    path: Path, compaction: tuple[bytes, str]
) -> None:
    _, summary = compaction
    assert [row.split()[1] for row in run("history", path).out.splitlines()] == ["user", "summary"]
    added = [row for row in run("diff", f"{path}@line:6", path).out.splitlines() if row.startswith("+")]
    assert [row.split()[2] for row in added if summary in row] == ["summary"]
    assert "last user message\n  q1\n" in run("show", path).out
    assert run("show", path, "--json").json["last_user"]["content"][0]["text"] == "q1"
    said = [row for row in run("reconstruct", path).out.splitlines() if row.split()[0] == "user"]
    assert [row.split() for row in said] == [["user", "q1"]]


def test_a_transcript_names_it(path: Path, compaction: tuple[bytes, str]) -> None:
    assert run("read", path).out.endswith(f"[user]\nq1\n\n[compaction summary]\n{compaction[1]}\n")


def test_a_document_and_a_replay_tell_it_as_part_of_the_compaction(path: Path, compaction: tuple[bytes, str]) -> None:
    record, summary = compaction
    document, page = run("export", path).out, run("export", path, "--format", "html").out
    assert f"{summary}\n```" in document
    assert f"now in the history: user\n\n```text\n{summary}" not in document
    if b"replacement_history" in record:
        assert f"now in the history: summary\n\n```text\n{summary}" in document
        assert "<h4>user</h4>" in page
        assert "<h4>summary</h4>" in page
        assert f"summary: {summary}" in " ".join(run("replay", path, "--unfold", "--full").out.split())
    assert 'class="user visible"' not in page.partition(summary)[0].rpartition("<article")[2]


def test_one_that_a_copied_log_hands_on_as_a_message_is_told_apart_too(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), user(OPENING)), turn("t1", user("q1"), assistant("a1")))
    document = run("export", path).out
    assert "**summary** (line 2)" in document
    assert '<article class="compaction visible"' in run("export", path, "--format", "html").out
    assert [row.split()[1] for row in run("history", path).out.splitlines()] == ["summary", "user", "assistant"]
    assert " summary " in run("tail", path).out
