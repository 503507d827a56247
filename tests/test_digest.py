"""What a list says of a file is what a reader of the file finds, read at once or as it grew."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout.dialects.codex.contextual import is_contextual
from rollout.files.recovery import mark_batch
from rollout.home.index.entry import Entry
from rollout.home.index.scan import Scan, decode_checkpoint, scan
from rollout.items.kinds import texts_of
from tests import builders as b
from tests import strategies
from tests.test_cases import CASES, NAMES

FORK = "019d0000-0000-7000-8000-000000000002"
NAME = f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"


def batches(lines: list[bytes], sizes: list[int]) -> bytes:
    """The lines in batches of these sizes, the rest one by one."""
    ended, parts = [line + b"\n" for line in lines], []
    for size in sizes:
        parts += mark_batch(ended[:size])
        ended = ended[size:]
    return b"".join([*parts, *ended])


batched_logs = st.builds(batches, strategies.well_formed_lines(4), st.lists(st.integers(1, 5), max_size=8))
logs = st.one_of(
    strategies.well_formed_logs(5),
    strategies.any_logs(20),
    strategies.damaged_logs(15),
    batched_logs,
    strategies.long_logs(),
    strategies.hostile_bytes.map(lambda data: b"" if data.startswith(b"(\xb5/\xfd") else data),
)
cuts = st.lists(st.floats(0, 1), max_size=5).map(sorted)


def look_at(data: bytes, path: Path, before: Scan | None = None) -> Scan:
    """Writes the file and looks at it."""
    path.write_bytes(data)
    return scan(path, path.parent, before=None if before is None else before.checkpoint)


def count_messages(history: Sequence[dict[str, Any]]) -> int:
    """As a person would: what users and the assistant say."""
    count = 0
    for item in history:
        if item.get("type") == "message" and item.get("role") in ("user", "assistant"):
            texts = texts_of(json.dumps(item).encode())
            count += item["role"] == "assistant" or not is_contextual("user", texts)
    return count


def check(digest: Entry, source: Path | bytes, home: Path | None = None) -> None:
    """A digest against what the readers say of the same file."""
    state = rollout.reconstruct(source, home=home)
    total = (state.token_usage or {}).get("total_tokens")
    assert digest.turns == len(state.turns)
    assert digest.messages == count_messages(state.history)
    assert digest.model == state.previous_model
    assert digest.tokens == (total if isinstance(total, int) else None)
    assert digest.damaged == rollout.verify(source, home=home).damaged_lines
    assert digest.thread == (state.thread_id or "")


@pytest.mark.parametrize("name", NAMES)
def test_the_digest_of_a_recorded_case_says_what_its_readers_say(name: str) -> None:
    case = CASES / name
    path = case / json.loads((case / "expected.json").read_text())["rollout"]
    home = case if (case / "sessions").is_dir() else None
    found = scan(path, home)
    check(found.entry, path, home)


@given(logs)
def test_a_digest_of_any_log_says_what_its_readers_say(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        found = look_at(data, path)
        check(found.entry, path)


def grown_in_steps(data: bytes, cuts: list[float], path: Path) -> Scan:
    """A look at a file that had grown to each of the cuts before: the same as one at the whole of it."""
    grown = None
    for cut in [*cuts, 1.0]:
        grown = look_at(data[: round(cut * len(data))], path, grown)
    at_once = look_at(data, path)
    assert grown is not None
    assert grown.entry == at_once.entry
    assert (grown.checkpoint.end, grown.checkpoint.join) == (at_once.checkpoint.end, at_once.checkpoint.join)
    return grown


@given(logs, cuts)
@settings(max_examples=120)
def test_a_digest_that_has_grown_in_any_steps_equals_one_made_at_once(data: bytes, cuts: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        grown_in_steps(data, cuts, Path(folder) / NAME)


@given(strategies.any_lines(12), strategies.any_lines(12), st.integers(0, 12), cuts)
def test_a_fork_that_has_grown_equals_one_read_at_once_and_says_what_its_readers_say(
    base: list[bytes], own: list[bytes], taken: int, cuts: list[float]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, source = Path(folder) / NAME.replace(b.THREAD, FORK), Path(folder) / NAME
        source.write_bytes(b.log(*base))
        history_base = {"thread_id": b.THREAD, "end_byte_offset": len(b.log(*base[:taken]))}
        data = b.log(b.session_meta(FORK, history_base=history_base), *own)
        grown = grown_in_steps(data, cuts, path)
        check(grown.entry, path)


def digest_of(path: Path, *lines: bytes) -> Entry:
    return look_at(b.log(*lines), path / NAME).entry


def test_a_digest_has_the_fields_of_the_session_meta(tmp_path: Path) -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "p1", "depth": 1}}}
    keys: dict[str, Any] = {
        "source": spawn,
        "git": {"branch": "main"},
        "originator": "o",
        "cli_version": "1",
        "forked_from_id": "f1",
    }
    found = digest_of(tmp_path, b.session_meta(**keys))
    said = (found.source, found.parent, found.git_branch, found.originator, found.cli_version, found.forked_from)
    assert said == ("subagent", "p1", "main", "o", "1", "f1")
    assert (found.cwd, found.model_provider, found.created) == ("/p", "m", b.TIME)


@pytest.mark.parametrize("source", [{"subagent": "review"}, {"subagent": {"other": "x"}}, {"custom": 7}, 7, None, []])
def test_a_source_of_any_shape_gives_a_word_or_nothing(tmp_path: Path, source: object) -> None:
    found = digest_of(tmp_path, b.session_meta(source=source, git=[], cwd=7, history_base=source))
    assert found.source == (next(iter(source)) if isinstance(source, dict) else None)
    assert (found.parent, found.cwd, found.git_branch) == (None, None, None)


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        ([b.contextual(), b.user("one", "two"), b.user("three")], "one\ntwo"),
        ([b.user_message("said"), b.completed()], "said"),
        ([b.user_message("said"), b.started("t"), b.user("asked"), b.rolled_back()], "asked"),
        ([b.inter_agent("do it"), b.user("q")], "do it"),
        ([b.agent_message("do that")], "do that"),
        ([b.bare_item(b.user_item("bare"))], "bare"),
        ([b.user("x" * 5000)], "x" * 1000),
        ([b.item("message", role="user", content=[{"type": "input_image", "image_url": "data:"}])], "[image]"),
        ([b.event("user_message", message="", images=["data:"])], "[image]"),
        ([b.event("user_message", message="", images=[], local_images=["/p.png"])], "[image]"),
        ([b.event("user_message", message=7)], ""),
        ([b.assistant("a")], None),
    ],
)
def test_the_first_message_is_the_first_that_a_user_wrote(
    tmp_path: Path, lines: list[bytes], first: str | None
) -> None:
    assert digest_of(tmp_path, b.session_meta(), *lines).first_message == first


def test_labels_are_collected_as_a_file_grows_and_those_of_a_torn_end_are_not_kept(tmp_path: Path) -> None:
    def labelled(session_id: str, **tags: str) -> bytes:
        return b.line("response_item", b.assistant_item("a"), session_id=session_id, tags=tags)

    path = tmp_path / NAME
    data = b.log(b.session_meta(session_id="not-a-label"), labelled("s2", k="v"))
    first = look_at(data, path)
    second = look_at(data + labelled("s1"), path, first)
    third = look_at(data + b.log(labelled("s3", k="w")), path, second)
    assert first.entry.session_ids == ("s2",)
    assert second.entry.session_ids == ("s1", "s2")
    assert third.entry.session_ids == ("s2", "s3")
    assert third.entry.tags == (("k", "v"), ("k", "w"))


def test_what_is_remembered_is_far_smaller_than_the_log(tmp_path: Path) -> None:
    lines = [
        line
        for n in range(500)
        for line in (b.started(f"t{n}"), b.user(f"q{n}"), b.assistant("a" * 900), b.token_count(n))
    ]
    checkpoint = look_at(b.log(*lines), tmp_path / NAME).checkpoint
    assert len(msgspec.msgpack.encode(checkpoint)) < 0.06 * sum(map(len, lines))
    assert decode_checkpoint(msgspec.msgpack.encode(checkpoint)) == checkpoint
