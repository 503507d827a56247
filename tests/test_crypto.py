"""An encrypted log says what the plain one says, to those who have the key and to nobody else."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
import stat
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import rollout
from rollout import Cipher, Limits, NoKey, Store, UsageError, WrongKey
from rollout.files.encrypted.keys import KEYS_FILE, Keys
from rollout.files.lineage import open_bytes
from tests import builders as b
from tests import strategies
from tests.enciphering import KEY, OTHER_KEY, SMALL, a_cipher, a_secret_log, a_secret_store, enciphered, told
from tests.sessions import take_turn, texts

limits = st.builds(Limits, first_chunk_bytes=st.integers(1, 700), chunk_bytes=st.integers(1, 700))
logs = st.one_of(strategies.well_formed_lines(5), strategies.any_lines(12)).map(
    lambda lines: [b.session_meta(), *(line for line in lines if b'"payload"' in line)]
)


@given(logs, limits, st.booleans())
def test_the_state_of_an_encrypted_log_is_that_of_the_plain_one(
    lines: list[bytes], small: Limits, is_sealed: bool
) -> None:
    secret = enciphered(lines)
    data = zstandard.compress(secret) if is_sealed else secret
    state = rollout.reconstruct(data, limits=small, cipher=a_cipher())
    assert told(state) == told(rollout.reconstruct(b.log(*lines), limits=small))
    assert state.damage == ()
    report = rollout.verify(data, limits=small, cipher=a_cipher())
    assert report.ok
    assert report.records == len(lines)


@given(logs, limits)
def test_each_opened_line_stands_in_the_place_of_the_encrypted_one(lines: list[bytes], small: Limits) -> None:
    secret = enciphered(lines)
    opened = b"".join(record.raw for record in rollout.records(secret, limits=small, cipher=a_cipher()))
    assert [len(line) for line in opened.split(b"\n")] == [len(line) for line in secret.split(b"\n")]
    assert [json.loads(line)["payload"] for line in opened.splitlines()] == [
        json.loads(line)["payload"] for line in lines
    ]


@given(st.lists(st.tuples(st.integers(0, 6000), st.integers(1, 900)), max_size=12), st.data())
def test_any_piece_of_the_text_is_the_same_however_it_is_asked_for(
    pieces: list[tuple[int, int]], data: st.DataObject
) -> None:
    lines = [b.session_meta(), *(b.user("x" * n) for n in data.draw(st.lists(st.integers(0, 800), max_size=8)))]
    file = enciphered(lines)
    whole = b"".join(record.raw for record in rollout.records(file, cipher=a_cipher()))
    source = open_bytes(file, keys=Keys(a_cipher()), limits=data.draw(limits)).source
    for offset, n in pieces:
        assert source.read_at(offset, n) == whole[offset : offset + n]


def test_the_end_of_a_long_log_is_enough_as_of_a_plain_one() -> None:
    older = [line for i in range(600) for line in (b.started(f"t{i}"), b.context(f"t{i}"), b.user("q" * 200))]
    lines = [
        b.session_meta(),
        *older,
        b.started("t"),
        b.context("t"),
        b.compacted([]),
        b.context("t"),
        b.user("newest"),
    ]
    small = Limits(first_chunk_bytes=4096, chunk_bytes=8192)
    plain = rollout.reconstruct(b.log(*lines), limits=small)
    state = rollout.reconstruct(enciphered(lines), cipher=a_cipher(), limits=small)
    assert texts(state) == ["newest"]
    assert state.bytes_read < 2 * plain.bytes_read + 16_384


def test_a_line_beyond_the_limit_is_damage_and_the_rest_is_read() -> None:
    lines = [b.session_meta(), b.user("before"), b.user("x" * 5000), b.user("behind")]
    small = Limits(line_bytes=1000, first_chunk_bytes=128, chunk_bytes=256)
    state = rollout.reconstruct(enciphered(lines), cipher=a_cipher(), limits=small)
    assert texts(state) == ["before", "behind"]
    report = rollout.verify(enciphered(lines), cipher=a_cipher(), limits=small)
    assert {(damage.line, damage.kind) for damage in report.damage} == {(3, "oversize")}


def test_without_the_key_nothing_is_read_and_the_error_names_it() -> None:
    data = enciphered([b.session_meta(), b.user("q")])
    with pytest.raises(NoKey, match=r"key 'k1', and no keys are given; give a Cipher.*ROLLOUT_KEYS_FILE"):
        rollout.reconstruct(data)
    with pytest.raises(NoKey, match="key 'k1', which is not among the keys"):
        rollout.reconstruct(data, cipher=a_cipher(key_id="k2"))
    with pytest.raises(WrongKey, match="key 'k1' does not open it"):
        rollout.reconstruct(data, cipher=a_cipher(OTHER_KEY))


def test_a_log_is_not_opened_for_append_without_its_key_and_stays_as_it_is(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        take_turn(log, "q")
    before = log.path.read_bytes()
    for cipher, error in ((None, NoKey), (a_cipher(OTHER_KEY), WrongKey), (a_cipher(key_id="k2"), NoKey)):
        with pytest.raises(error):
            Store(tmp_path, cipher=cipher).open(log.id)
        assert log.path.read_bytes() == before
    with Store(tmp_path, cipher=a_cipher()).open(log.id) as again:
        take_turn(again, "q2")
    assert texts(again.resume_state()) == ["q", "answer to q", "q2", "answer to q2"]


def test_lines_of_an_older_key_are_read_and_new_ones_have_the_current_key(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        take_turn(log, "q")
    both = Cipher({"k1": KEY, "k2": OTHER_KEY}, "k2")
    with Store(tmp_path, cipher=both).open(log.id) as again:
        take_turn(again, "q2")
    state = rollout.reconstruct(log.path, cipher=both)
    assert texts(state) == ["q", "answer to q", "q2", "answer to q2"]
    assert state.damage == ()
    assert {b'"key":"k1"' in line for line in log.path.read_bytes().splitlines()[-4:]} == {False}
    with pytest.raises(NoKey, match="'k2'"):
        rollout.reconstruct(log.path, cipher=a_cipher())


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_file_of_keys_is_made_for_its_owner_alone_and_refused_if_others_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    rollout.make_key(path, "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rollout.make_key(path, "two")
    cipher = Cipher.from_file(path)
    assert (cipher.current, sorted(cipher.ids)) == ("two", ["one", "two"])
    with pytest.raises(UsageError, match="there is a key 'one' already"):
        rollout.make_key(path, "one")
    path.chmod(0o640)
    with pytest.raises(NoKey, match="chmod 600"):
        Cipher.from_file(path)


def test_the_keys_of_the_environment_read_and_write_where_none_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout.make_key(tmp_path / "keys.json", "env")
    monkeypatch.setenv(KEYS_FILE, str(tmp_path / "keys.json"))
    with a_secret_log(Store(tmp_path / "home")) as log:
        take_turn(log, "a secret question")
    assert b"secret question" not in log.path.read_bytes()
    assert texts(rollout.reconstruct(log.path)) == ["a secret question", "answer to a secret question"]
    monkeypatch.setenv(KEYS_FILE, str(tmp_path / "gone.json"))
    with pytest.raises(NoKey, match="cannot be read"):
        rollout.reconstruct(log.path)


@pytest.mark.parametrize("text", ["", "{}", '{"current":"a","keys":{"a":"!"}}', '{"current":"a","keys":{"a":"QQ=="}}'])
def test_what_is_no_file_of_keys_is_refused_without_telling_what_it_holds(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(UsageError) as caught:
        Cipher.from_file(path)
    assert "QQ==" not in str(caught.value)


def test_keys_are_neither_shown_nor_pickled() -> None:
    cipher = a_cipher()
    for text in (repr(cipher), str(cipher), f"{cipher}"):
        assert text == "<Cipher of 1 keys, the current one 'k1'>"
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="keys are not pickled"):
            attempt(cipher)
    assert base64.b64encode(KEY) not in repr(cipher).encode()


@pytest.mark.parametrize(
    ("keys", "current"),
    [({"k": KEY[1:]}, "k"), ({"": KEY}, ""), ({"k" * 17: KEY}, "k" * 17), ({'"': KEY}, '"'), ({"k": KEY}, "other")],
)
def test_what_is_no_key_is_refused(keys: dict[str, bytes], current: str) -> None:
    with pytest.raises(UsageError):
        Cipher(keys, current)


def test_small_chunks_read_a_log_with_forks_across_keys(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        take_turn(log, "q")
    both = Cipher({"k1": KEY, "k2": OTHER_KEY}, "k2")
    with Store(tmp_path, cipher=both).open(log.id, "read") as reader, reader.fork() as child:
        take_turn(child, "f")
    state = rollout.reconstruct(child.path, cipher=both, limits=SMALL)
    assert texts(state) == ["q", "answer to q", "f", "answer to f"]
    assert state.damage == ()
