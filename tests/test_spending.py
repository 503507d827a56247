"""Tokens are counted once: over repeated totals, rollbacks, forks and copies, read at once or as a file grows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout.dialects.codex.tokens import read_gauge
from rollout.fold.tokens import day_of, seconds_between
from rollout.home.index.entry import Entry
from rollout.home.index.scan import Scan, scan
from rollout.items.texts import has_failed, name_of
from rollout.items.tokens import Tokens
from tests import builders as b
from tests import metered as m
from tests.metered import metered

NAME = f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
DAY, NEXT_DAY = "2026-03-20", "2026-03-22"


def look_at(folder: Path, data: bytes, before: Scan | None = None, name: str = NAME) -> Scan:
    path = folder / name
    path.write_bytes(data)
    return scan(path, folder, before=None if before is None else before.checkpoint)


def digest_of(folder: Path, *lines: bytes) -> Entry:
    return look_at(folder, b.log(b.session_meta(), *lines)).entry


def totals(digest: Entry) -> list[tuple[str | None, str | None, int, int]]:
    return [(row.day, row.model, row.requests, row.tokens.total) for row in digest.spent]


def test_a_total_that_is_written_twice_counts_once(tmp_path: Path) -> None:
    lines = [b.context(None, "m1"), metered(100), metered(100), metered(150), b.usage_record(150)]
    assert totals(digest_of(tmp_path, *lines)) == [(DAY, "m1", 2, 150)]


def test_a_total_that_is_lower_than_the_one_before_begins_anew(tmp_path: Path) -> None:
    assert totals(digest_of(tmp_path, metered(100), metered(40), metered(45))) == [(DAY, None, 3, 145)]


def test_totals_that_are_those_of_the_last_request_alone_begin_anew(tmp_path: Path) -> None:
    lines = [metered(100, 100), metered(150, 150), metered(150, 150), metered(170, 20)]
    assert totals(digest_of(tmp_path, *lines)) == [(DAY, None, 3, 270)]


def test_a_request_with_a_record_counts_once_and_so_does_one_that_only_records_tell_of(tmp_path: Path) -> None:
    lines = [m.recorded(110, 110), metered(110, 110), m.recorded(220, 110), b.compacted([]), metered(110, 90)]
    assert totals(digest_of(tmp_path, *lines)) == [(DAY, None, 2, 220)]
    assert totals(digest_of(tmp_path, *lines, m.recorded(330, 110), metered(220, 110))) == [(DAY, None, 3, 330)]
    assert rollout.summarize(b.log(b.user("a"), *lines)).turns[0].spent.total == 220


def test_a_log_of_counts_may_go_on_with_records_and_the_other_way_round(tmp_path: Path) -> None:
    later = [metered(100, 100), m.recorded(320, 110), metered(210, 110)]
    assert totals(digest_of(tmp_path, *later)) == [(DAY, None, 2, 210)]
    assert totals(digest_of(tmp_path, *later, metered(310, 100))) == [(DAY, None, 3, 310)]


def test_what_is_spent_counts_on_its_day_and_by_its_model(tmp_path: Path) -> None:
    lines = [b.context(None, "m1"), metered(100), b.context(None, "m2"), metered(130), metered(190, time=m.LATER)]
    assert totals(digest_of(tmp_path, *lines)) == [(DAY, "m1", 1, 100), (DAY, "m2", 1, 30), (NEXT_DAY, "m2", 1, 60)]


def test_what_was_rolled_back_was_spent_and_is_in_context_no_more(tmp_path: Path) -> None:
    found = digest_of(tmp_path, b.user("a"), metered(100, 100), b.user("b"), metered(300, 200), b.rolled_back(1))
    assert totals(found) == [(DAY, None, 2, 300)]
    assert found.context_tokens == 100


def test_after_a_compaction_the_context_is_not_known_until_it_is_measured(tmp_path: Path) -> None:
    lines = [b.user("a"), metered(100, 100), b.compacted([b.user_item("s")])]
    assert digest_of(tmp_path, *lines).context_tokens is None
    assert digest_of(tmp_path, *lines, metered(100, 30)).context_tokens == 30
    taken_back = [b.user("a"), metered(100, 100), b.user("b"), b.compacted([]), b.rolled_back(1)]
    assert digest_of(tmp_path, *taken_back).context_tokens == 100


def test_what_a_copying_fork_holds_of_its_source_is_not_its_own(tmp_path: Path) -> None:
    copied = [b.session_meta(m.SOURCE), b.started(m.OLD_TURN), b.context(m.OLD_TURN), b.user("a"), metered(500, 500)]
    own = [b.started(m.NEW_TURN), b.context(m.NEW_TURN, "m2"), b.user("b"), metered(650, 150)]
    assert totals(digest_of(tmp_path, *copied)) == []
    assert totals(digest_of(tmp_path, *copied, *own)) == [(DAY, "m2", 1, 150)]


def test_where_turns_have_no_ids_that_tell_the_moment_of_copying_does(tmp_path: Path) -> None:
    copied = [b.session_meta(m.SOURCE), b.started("t1"), b.user("a"), metered(500)]
    assert totals(digest_of(tmp_path, *copied, b.started("t2"), metered(650, time=m.LATER))) == [
        (NEXT_DAY, None, 1, 150)
    ]


def test_a_fork_by_reference_goes_on_from_the_totals_of_its_base(tmp_path: Path) -> None:
    base = b.log(b.session_meta(m.SOURCE), b.context(None, "m1"), b.user("a"), metered(500, 400))
    source = tmp_path / "sessions/2026/03/19" / f"rollout-2026-03-19T10-00-00-{m.SOURCE}.jsonl"
    source.parent.mkdir(parents=True)
    source.write_bytes(base)
    history_base = {"thread_id": m.SOURCE, "end_byte_offset": len(base)}
    fork = b.session_meta(history_base=history_base)
    found = look_at(tmp_path, b.log(fork)).entry
    assert (totals(found), found.context_tokens) == ([], 400)
    assert totals(look_at(tmp_path, b.log(fork, metered(520))).entry) == [(DAY, "m1", 1, 20)]
    source.unlink()
    assert totals(look_at(tmp_path, b.log(fork, metered(520, 20))).entry) == [(DAY, None, 1, 20)]


@given(m.logs, st.lists(st.floats(0, 1), max_size=4).map(sorted))
@settings(max_examples=150)
def test_what_a_grown_file_has_spent_equals_what_is_found_at_once(data: bytes, cuts: list[float]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, grown = Path(name), None
        for cut in [*cuts, 1.0]:
            grown = look_at(folder, data[: round(cut * len(data))], grown)
        at_once = look_at(folder, data)
        assert grown is not None
        assert grown.entry == at_once.entry
        summary = rollout.summarize(folder / NAME)
        assert summary.by_day == at_once.entry.spent
        assert summary.context_tokens == at_once.entry.context_tokens


@given(m.lines)
@settings(max_examples=80)
def test_the_context_is_what_the_newest_measure_says_that_an_item_in_its_place_would_outlive(
    lines: list[bytes],
) -> None:
    lines = [b.user("first"), *(line for line in lines if line.endswith(b"}") and line.count(b'"timestamp"') == 1)]
    lines = [line for line in lines if b"usage_record" not in line]
    expected = None
    for k, line in enumerate(lines):
        last = last_of(line)
        if last:
            tried = b.log(b.session_meta(), *lines[:k], b.assistant("here"), *lines[k + 1 :])
            if [each.status for each in rollout.explain(tried)][k + 1] == "visible":
                expected = last
    assert rollout.summarize(b.log(b.session_meta(), *lines)).context_tokens == expected


def last_of(line: bytes) -> int | None:
    """What the line says that the last request took; nothing where it is no such line."""
    (record,) = rollout.records(line)
    info = record.payload.get("info") if record.kind == "token_count" else None
    last = (info or {}).get("last_token_usage")
    return max(last["total_tokens"], 0) if last else None


@given(st.integers(-5, 2**70), st.integers(-5, 2**70), st.one_of(st.none(), st.integers(-5, 2**70)))
def test_a_record_of_an_odd_shape_is_read_as_a_plain_one_is(total: int, last: int, window: int | None) -> None:
    plain = metered(total, last, window=window)
    odd = plain.replace(b'"info":{', b'"usage":7,"info":{"input_tokens":"x",')
    assert read_gauge(plain, 128) == read_gauge(odd, 128)
    both = (b'{"total_tokens":%d}' % total, b'{"total_tokens":%d,"input_tokens":1.5}' % total)
    readings = [read_gauge(plain.replace(both[0], each), 128) for each in both]
    assert readings[0] == readings[1]


def test_tokens_add_up_and_never_go_below_nothing() -> None:
    assert Tokens(1, 2, 3, 4, 5) + Tokens(5, 4, 3, 2, 1) == Tokens(6, 6, 6, 6, 6)
    assert Tokens(1, 9, 1, 1, 10).since(Tokens(3, 3, 1, 0, 9)) == Tokens(0, 6, 0, 1, 1)
    huge = Tokens(0, 0, 0, 0, 1 << 62)
    assert huge + huge == huge


@pytest.mark.parametrize(
    ("time", "day"),
    [
        ("2026-03-20T23:30:00.000Z", "2026-03-20"),
        ("2026-03-20T23:30:00-05:00", "2026-03-21"),
        ("2026-03-20T23:30:00", "2026-03-20"),
        ("yesterday", None),
        (None, None),
    ],
)
def test_a_day_is_that_of_the_time_in_utc(time: str | None, day: str | None) -> None:
    assert day_of(time) == day


def test_times_that_are_missing_or_the_wrong_way_round_have_nothing_between_them() -> None:
    assert seconds_between("2026-03-20T10:00:00Z", "2026-03-20T10:01:30.5Z") == 90.5
    assert seconds_between("2026-03-20T10:00:00Z", "2026-03-20T09:00:00Z") is None
    assert seconds_between(None, "2026-03-20T09:00:00Z") is None


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("Exit code: 0\nWall time: 1 seconds\nOutput:\nExit code: 3", False),
        ("Exit code: 127\nOutput:\nnot found", True),
        ("Chunk ID: a\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\nerror: x", False),
        ("Chunk ID: a\nWall time: 0.0 seconds\nProcess exited with code 1\nOutput:\n", True),
        ('{"output": "x", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}', False),
        ('{"output": "x", "metadata": {"exit_code": 2}}', True),
        ('{"success": false}', True),
        ('{"exit_code": true}', False),
        ("{not json", False),
        ("aborted", True),
        ("execution error: Io", True),
        ("all is well: 0 failed", False),
        ({"content": "x", "success": False}, True),
        ({"content": "Exit code: 1", "success": None}, True),
        ([{"type": "input_text", "text": "Exit code: 1"}], True),
        ([{"type": "input_image", "image_url": "data:"}], False),
        (7, False),
        (None, False),
    ],
)
def test_an_output_has_failed_if_its_code_or_its_words_say_so(output: object, failed: bool) -> None:
    assert has_failed({"type": "function_call_output", "output": output}) is failed


def test_a_call_is_of_a_tool_and_may_have_failed_itself() -> None:
    assert name_of({"type": "function_call", "namespace": "mcp__x", "name": "read"}) == "mcp__x.read"
    assert name_of({"type": "web_search_call"}) == "web_search"
    assert name_of({"type": "function_call", "name": 7}) == "(no name)"
    assert has_failed({"type": "web_search_call", "status": "failed"})
    assert not has_failed({"type": "message", "output": "Exit code: 1"})
