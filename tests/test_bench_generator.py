"""The rollouts that the bench measures with are what they say they are."""

from __future__ import annotations

import collections
import io
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import rollout
from bench import homes, measure, read, rollouts
from bench.rollouts import KINDS, MB, Form, Kind

ROOT = Path(__file__).resolve().parent.parent
SIZE_BYTES = 5 * MB


def make(kind: Kind, size_bytes: int = SIZE_BYTES, seed: int = 1) -> bytes:
    return b"".join(rollouts.generate_turns(kind, size_bytes, seed))


@pytest.fixture(scope="module")
def many() -> list[dict[str, Any]]:
    return [json.loads(line) for line in make("many").splitlines()]


def payloads(records: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [record["payload"] for record in records if {record["type"], record["payload"].get("type")} & set(kinds)]


def test_one_seed_gives_one_rollout_and_another_seed_another() -> None:
    assert make("near-end", MB) == make("near-end", MB)
    assert make("near-end", MB) != make("near-end", MB, seed=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rollout_has_the_size_that_was_asked_for_and_comes_in_small_pieces(kind: Kind) -> None:
    sizes = [len(piece) for piece in rollouts.generate_turns(kind, SIZE_BYTES)]
    assert max(sizes) < 400_000
    assert SIZE_BYTES <= sum(sizes) < SIZE_BYTES + 500_000


def test_compactions_lie_where_the_kind_says() -> None:
    near = make("near-end")
    assert near.count(b'"type":"compacted"') == 1
    assert 0 < len(near) - near.index(b'"type":"compacted"') <= rollouts.TAIL_BYTES + 100_000
    assert b'"type":"compacted"' not in make("none")
    places = [found.start() for found in re.finditer(rb'"type":"compacted"', make("many", 9 * MB))]
    assert all(2 * MB <= after - before < 2.5 * MB for before, after in itertools.pairwise([0, *places]))
    assert len(places) == 4


def test_what_follows_a_compaction_near_the_end_is_the_same_for_every_size() -> None:
    def lengths(rollout: bytes) -> list[int]:
        tail = rollout[rollout.index(b'"type":"compacted"') :]
        return [len(line) for line in tail.splitlines() if b'"token_count"' not in line]

    assert lengths(make("near-end", 2 * MB)) == lengths(make("near-end")) != []


def test_every_turn_starts_has_a_context_and_a_question_and_ends(many: list[dict[str, Any]]) -> None:
    started = [payload["turn_id"] for payload in payloads(many, "task_started")]
    assert len(set(started)) == len(started)
    assert [payload["turn_id"] for payload in payloads(many, "task_complete")] == started
    regular = len(started) - len(payloads(many, "compacted"))
    assert len(payloads(many, "turn_context")) == len(payloads(many, "user_message")) == regular > 50


def test_texts_have_the_sizes_of_real_ones(many: list[dict[str, Any]]) -> None:
    blobs = [len(payload["encrypted_content"]) for payload in payloads(many, "reasoning")]
    outputs = [len(payload["output"]) for payload in payloads(many, "function_call_output")]
    assert 500 <= min(blobs) < 700
    assert 5_000 < max(blobs) <= 6_010
    assert 200 <= min(outputs) < 500
    assert 8_000 < max(outputs) <= 10_500
    assert len(blobs) == len(outputs)
    for compacted in payloads(many, "compacted"):
        assert len(compacted["replacement_history"]) == 40
        assert 18_000 < len(json.dumps(compacted)) < 120_000


def test_what_the_agent_says_is_there_twice_as_an_event_and_as_an_item(many: list[dict[str, Any]]) -> None:
    said = [payload["message"] for payload in payloads(many, "agent_message")]
    assert said == [item["content"][0]["text"] for item in payloads(many, "message") if item["role"] == "assistant"]


def test_tokens_are_counted_once_a_model_call_and_only_grow(many: list[dict[str, Any]]) -> None:
    infos = [payload["info"] for payload in payloads(many, "token_count")]
    totals = [info["total_token_usage"]["total_tokens"] for info in infos]
    assert totals == sorted(set(totals))
    for before, now in itertools.pairwise(infos):
        was, is_now, last = before["total_token_usage"], now["total_token_usage"], now["last_token_usage"]
        assert {key: is_now[key] - was[key] for key in was} == last
    assert len(totals) == len(payloads(many, "reasoning", "task_complete"))


def keys_by_kind(records: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], set[str]]:
    keys: dict[tuple[Any, ...], set[str]] = collections.defaultdict(set)
    for record in records:
        payload = record["payload"]
        keys[record["type"], payload.get("type"), payload.get("role")] |= payload.keys()
    return keys


def test_every_kind_of_line_has_the_keys_that_codex_gave_it(many: list[dict[str, Any]]) -> None:
    files = [ROOT / "fixtures" / "cases" / case / "rollout.jsonl" for case in ("o117_tools", "o117_compact_remote_end")]
    recorded = keys_by_kind(json.loads(line) for file in files for line in file.read_bytes().splitlines())
    for kind, keys in keys_by_kind(many).items():
        assert kind in recorded
        assert recorded[kind] <= keys


@pytest.mark.parametrize("form", ["frames", "one-frame"])
def test_a_sealed_rollout_unpacks_to_the_plain_one(tmp_path: Path, form: Form) -> None:
    plain, sealed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.zst"
    rollouts.make(plain, "many", SIZE_BYTES)
    rollouts.seal(plain, sealed, form)
    assert plain.read_bytes() == make("many")
    reader = zstandard.ZstdDecompressor().stream_reader(sealed.read_bytes(), read_across_frames=True)
    assert reader.readall() == plain.read_bytes()


def test_frames_end_at_line_ends_and_carry_size_and_checksum(tmp_path: Path) -> None:
    plain, sealed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.zst"
    rollouts.make(plain, "none", SIZE_BYTES)
    rollouts.seal(plain, sealed)
    rest, frames = sealed.read_bytes(), 0
    while rest:
        parameters = zstandard.get_frame_parameters(rest)
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        text = unpacker.decompress(rest)
        assert text.endswith(b"\n")
        assert parameters.has_checksum
        assert parameters.content_size == len(text) <= rollouts.FRAME_BYTES
        rest, frames = unpacker.unused_data, frames + 1
    assert frames == 5


def test_a_line_longer_than_a_frame_is_not_cut() -> None:
    long = b"a" * (3 * rollouts.FRAME_BYTES) + b"\n"
    text = b"b\n" + long + b"c\n" + b"d" * 10
    pieces = list(rollouts.cut_frames(io.BytesIO(text)))
    assert b"".join(pieces) == text
    assert long in pieces


def test_make_on_the_command_line_writes_what_the_function_gives(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    command = [sys.executable, "-m", "bench", "--make", "1M", "near-end", str(path)]
    subprocess.run(command, check=True, cwd=ROOT)
    assert path.read_bytes() == make("near-end", MB)


def test_peak_memory_is_that_of_the_process_itself_not_of_the_one_that_started_it() -> None:
    ballast = bytearray(b"x") * 150_000_000
    program = "import bench.measure as m, sys; b = bytearray(b'x') * int(sys.argv[1]); print(m.peak_bytes())"

    def peak(allocated_bytes: int) -> int:
        command = [sys.executable, "-c", program, str(allocated_bytes)]
        return int(subprocess.run(command, check=True, cwd=ROOT, capture_output=True).stdout)

    assert peak(0) < 60_000_000 < len(ballast)
    assert 80_000_000 < peak(80_000_000) < 140_000_000


def row(size_bytes: int, seconds: float, baseline_seconds: float = 1.0) -> read.Row:
    measured = measure.Measured(seconds, baseline_seconds, 0, measure.Read(0))
    limit, aim = read.limit_of("reconstruct", "near-end", "plain", size_bytes)
    return read.Row("reconstruct", "near-end", "plain", size_bytes, limit, aim, measured)


def test_a_target_is_missed_at_its_limit_and_met_below_it() -> None:
    assert [check.is_met for check in read.check([row(100 * MB, 0.02)])] == [False]
    assert [check.is_met for check in read.check([row(100 * MB, 0.019)])] == [True]


def test_the_same_time_at_600_as_at_100_mb_is_a_target_of_its_own() -> None:
    *_, last = read.check([row(100 * MB, 0.002), row(600 * MB, 0.012)])
    assert (round(last.value), last.is_met) == (6, False)
    *_, last = read.check([row(100 * MB, 0.002), row(600 * MB, 0.0021)])
    assert last.is_met


def test_a_home_holds_as_many_rollouts_as_asked_for_and_each_is_whole(tmp_path: Path) -> None:
    size_bytes = homes.make(tmp_path, 40)
    paths = sorted(tmp_path.rglob("*.jsonl"))
    assert len(paths) == 40
    assert sum(path.stat().st_size for path in paths) == size_bytes
    assert all(rollout.verify(path).ok and rollout.reconstruct(path).session for path in paths)
