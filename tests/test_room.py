"""Where the bytes are: each has one cause, whatever the file holds."""

from __future__ import annotations

import base64
import random
import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout import FileUsage, Store
from rollout.home.maintenance.disk_usage import CAUSES
from tests import builders as b
from tests import strategies
from tests.builders import log

CHILD = "019d0000-0000-7000-8000-000000000002"
URL = "data:image/png;base64," + base64.b64encode(bytes(range(200))).decode()


def place(home: Path, data: bytes, thread: str = b.THREAD, *, name: str = "") -> Path:
    path = home / "sessions/2026/03/20" / (name or f"rollout-2026-03-20T10-00-00-{thread}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def usage(home: Path, data: bytes) -> FileUsage:
    (row,) = Store(home).du([place(home, data)]).rows
    assert sum(row.causes.values()) == row.text_bytes == len(data)
    return row


def causes(home: Path, *lines: bytes) -> dict[str, int]:
    """What a file of these lines has, behind a session_meta, which is left out."""
    meta = b.session_meta()
    found = dict(usage(home, log(meta, *lines)).causes)
    found["metadata"] -= len(meta) + 1
    return {cause: n for cause, n in found.items() if n}


def size(*lines: bytes) -> int:
    return len(log(*lines))


def test_items_go_by_what_became_of_them(tmp_path: Path) -> None:
    old, gone, taken, kept = b.user("old one"), b.user("rolled"), b.assistant("removed"), b.user("kept")
    shortened, back, cut = b.compacted([]), b.rolled_back(1), b.items_removed(1)
    assert causes(tmp_path, old, shortened, gone, back, kept, taken, cut) == {
        "standing": size(kept),
        "replaced": size(old),
        "rolled_back": size(gone),
        "removed": size(taken),
        "compactions": size(shortened),
        "events": size(back, cut),
    }


def test_settings_and_tokens_are_metadata_even_if_they_were_rolled_back(tmp_path: Path) -> None:
    settings_of_turn, world, usage_record = b.context("t"), b.world_state({"a": 1}, full=True), b.usage_record(7)
    opening, question, back = b.started("t"), b.user("q"), b.rolled_back(1)
    assert causes(tmp_path, opening, settings_of_turn, world, question, usage_record, back) == {
        "rolled_back": size(question),
        "metadata": size(settings_of_turn, world, usage_record),
        "events": size(opening, back),
    }


def test_pictures_count_apart_in_items_and_events_but_not_in_compactions(tmp_path: Path) -> None:
    part = {"type": "input_image", "image_url": URL}
    item = b.line("response_item", {"type": "message", "role": "user", "content": [part, part]})
    event = b.event("user_message", message="q", images=[URL])
    inline = b.assistant(f"![]({URL}) and more")
    short = b.compacted([{"type": "message", "role": "user", "content": [part]}])
    assert causes(tmp_path, short, item, event, inline) == {
        "images": 4 * len(URL),
        "standing": size(item, inline) - 3 * len(URL),
        "events": size(event) - len(URL),
        "compactions": size(short),
    }


@pytest.mark.parametrize("text", ["data:;base64", ";base64,AAAA", "data: ;base64,AAAA", "data:a,b;base64,AAAA"])
def test_what_only_looks_like_a_picture_is_text(tmp_path: Path, text: str) -> None:
    assert causes(tmp_path, b.user(text)) == {"standing": size(b.user(text))}


def test_damage_blank_lines_and_a_torn_end_have_their_causes(tmp_path: Path) -> None:
    whole = b.user("q")
    row = usage(tmp_path, log(b.session_meta(), b"%%", b"", whole, b" ") + b'{"torn')
    assert {cause: n for cause, n in row.causes.items() if n and cause != "metadata"} == {
        "damaged": 3 + 6,
        "blank": 1 + 2,
        "standing": size(whole),
    }


def test_what_a_fork_copied_counts_as_copied_while_its_source_is_there(tmp_path: Path) -> None:
    source = log(b.session_meta(), b.user("q"), b.compacted([]), b.user(URL))
    renewed = source.replace(b.TIME.encode(), b"2026-11-21T00:00:00.000Z")
    own = log(b.user("own"))
    path = place(tmp_path, source)
    child = place(tmp_path, log(b.session_meta(CHILD, forked_from_id=b.THREAD)) + renewed + own, CHILD)
    (row,) = Store(tmp_path).du([child]).rows
    assert (row.causes["copied_prefix"], row.causes["standing"]) == (len(source), len(own))
    assert Store(tmp_path).du().total.causes["copied_prefix"] == len(source)
    path.unlink()
    (row,) = Store(tmp_path).du([child]).rows
    assert row.causes["copied_prefix"] == 0
    assert row.causes["images"] == len(URL)


def test_the_sum_is_of_all_rows_and_sealed_files_count_with_their_text(tmp_path: Path) -> None:
    text = log(b.session_meta(), *[b.user("again and again")] * 500)
    place(tmp_path, text)
    packed = zstandard.compress(text)
    place(tmp_path, packed, name=f"rollout-2026-03-21T10-00-00-{CHILD}.jsonl.zst")
    room = Store(tmp_path).du()
    plain, sealed = room.rows
    assert (plain.sealed, sealed.sealed) == (False, True)
    assert (sealed.text_bytes, sealed.disk_bytes, sealed.would_free_bytes) == (len(text), len(packed), 0)
    assert sealed.causes == plain.causes
    assert 0.8 * len(text) < plain.would_free_bytes < len(text)
    assert room.total.files == 2
    assert room.total.disk_bytes == len(text) + len(packed)
    assert sum(room.total.causes.values()) == room.total.text_bytes == 2 * len(text)


def test_of_a_large_file_the_estimate_takes_pieces_from_everywhere(tmp_path: Path) -> None:
    noise = base64.b64encode(random.Random(0).randbytes(600)).decode()
    half = b.user("a" * 1000)
    data = log(b.session_meta(), *[half] * 10_000, *[b.user(noise + str(i)) for i in range(9_000)])
    row = usage(tmp_path, data)
    assert len(data) > 16 << 20
    exact = len(data) - len(zstandard.compress(data))
    assert abs(row.would_free_bytes - exact) < len(data) // 10


def test_a_file_that_cannot_be_read_is_a_row_with_its_trouble(tmp_path: Path) -> None:
    good_path = place(tmp_path, log(b.session_meta()))
    missing = tmp_path / "sessions/2026/03/20" / f"rollout-2026-03-20T10-00-00-{CHILD}.jsonl"
    good, bad = Store(tmp_path).du([good_path, missing]).rows
    assert (good.trouble, bad.trouble, bad.text_bytes) == (None, "there is no such file", 0)
    assert usage(tmp_path, b"").causes == dict.fromkeys(CAUSES, 0)


def test_progress_ends_with_all_bytes_of_the_disk(tmp_path: Path) -> None:
    place(tmp_path, log(b.session_meta()))
    place(tmp_path, log(b.session_meta(CHILD), b.user("q")), CHILD)
    seen: list[tuple[int, int]] = []
    total = Store(tmp_path).du(progress=lambda done, total: seen.append((done, total))).total
    assert seen[-1] == (total.disk_bytes, total.disk_bytes)


@settings(max_examples=60)
@given(st.one_of(strategies.damaged_logs(), strategies.well_formed_logs(), strategies.hostile_bytes))
def test_the_causes_add_up_to_the_text_whatever_the_bytes_are(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (row,) = Store(folder).du([place(Path(folder), data)]).rows
    assert row.trouble is not None or sum(row.causes.values()) == row.text_bytes
    assert row.trouble is None or data[:4] == zstandard.MAGIC_NUMBER.to_bytes(4, "little")
    assert min(row.causes.values()) >= 0
