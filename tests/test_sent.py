"""Small rollouts beside what Codex 0.169.0 sends to the model of them: each key, each part, each text of S3, S5 and S6.

`fixtures/README.md` says what lies in the files. Where this project differs on purpose (S9), the right answer stands in
the tests of the rules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rollout
from tests import builders as b
from tests.test_cases import comparable

SENT = Path(__file__).resolve().parent.parent / "fixtures" / "sent"
TURN = (b.started("t1"), b.context("t1"))


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SENT / f"{name}.jsonl").read_text().split("\n") if line]


def prompt_of(*lines: bytes) -> Any:
    """What is sent of a session of these lines."""
    return comparable(rollout.reconstruct(b.log(b.session_meta(), *lines)).for_prompt())


def recorded(records: list[Any]) -> list[bytes]:
    return [b.line(kind, payload) for kind, payload in records]


def group(row: dict[str, Any]) -> str:
    return str(row["name"].split("/")[0])


ITEMS, LOGS, MESSAGES = read("items"), read("logs"), read("messages")


def test_all_rows_are_here() -> None:
    assert (len(ITEMS), len(LOGS), len(MESSAGES)) == (945, 33, 300)


@pytest.mark.parametrize("name", sorted({group(row) for row in ITEMS}))
def test_items_of_a_turn_are_sent_as_they_are_sent_by_codex(name: str) -> None:
    first, last = b.user_item("q1"), b.assistant_item("a1")
    for row in ITEMS:
        if group(row) == name:
            lines = [b.user("q1"), *recorded(row["records"]), b.assistant("a1")]
            assert prompt_of(*TURN, *lines) == comparable([first, *row["sent"], last]), row["name"]


@pytest.mark.parametrize("row", LOGS, ids=lambda row: row["name"])
def test_a_small_log_is_sent_as_it_is_sent_by_codex(row: dict[str, Any]) -> None:
    assert prompt_of(*recorded(row["records"])) == row["sent"]


def test_a_message_counts_as_a_persons_where_it_does_for_codex() -> None:
    for row in MESSAGES:
        if "counts" in row:
            turn = (b.started("t2"), b.line("response_item", row["item"]), b.completed("t2"))
            said = prompt_of(*TURN, b.user("q1"), b.completed("t1"), *turn, b.rolled_back(1))
            assert said == ([b.user_item("q1")] if row["counts"] else []), row["item"]


def test_an_old_compaction_keeps_of_a_message_what_codex_keeps() -> None:
    for row in MESSAGES:
        if "kept" in row:
            message = b.line("response_item", row["item"])
            said = prompt_of(*TURN, b.user("q1"), message, b.legacy_compacted("S"))
            assert said == comparable([b.user_item("q1"), *row["kept"], b.user_item("S")]), row["item"]


NEVER_SENT = {"configuration_update", "ghost_snapshot"}
HIDDEN = ("missing/message_user/role", "missing/message_dev/role")
"""S3 has them among what is not shown."""


def test_a_malformed_item_is_reported_whatever_it_lacks() -> None:
    """Nothing goes without a note: what is not sent lacks a key, but for the types that never are."""
    lone = [row for row in ITEMS if group(row) == "missing" and not row["sent"] and len(row["records"]) == 1]
    told = [row for row in lone if row["records"][0][1]["type"] not in NEVER_SENT and row["name"] not in HIDDEN]
    assert len(told) > 10
    for row in told:
        data = b.log(b.session_meta(), *recorded(row["records"]))
        (note,) = rollout.verify(data).notes
        assert (note.kind, note.line) == ("malformed", 2), row["name"]
        assert [line.status for line in rollout.explain(data)][1] == "damaged", row["name"]
