"""A home with keys: what stands on its disk, and keys that change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import Cipher, NoKey, Store, UsageError
from rollout.errors import InUse
from rollout.files.encrypted.lines import LineCipher
from rollout.files.lineage import open_path
from tests import builders as b
from tests.enciphering import KEY, OTHER_KEY, a_cipher, a_secret_log, a_secret_store, enciphered, told
from tests.sessions import START, a_log, a_store, take_turn, texts

BOTH = {"k1": KEY, "k2": OTHER_KEY}


def everything(home: Path) -> bytes:
    return b"".join(path.read_bytes() + path.name.encode() for path in sorted(home.rglob("*")) if path.is_file())


def test_no_word_of_an_encrypted_home_stands_on_its_disk(tmp_path: Path) -> None:
    store = a_secret_store(tmp_path)
    with a_secret_log(store, base_instructions="hidden-one", git={"branch": "hidden-two"}) as log:
        take_turn(log, "hidden-three")
        with pytest.raises(ValueError, match="hidden-four"), log.turn({"model": "hidden-five"}):
            raise ValueError("hidden-four")
        log.compact([b.user_item("hidden-six")], "hidden-seven")
        log.event("note", text="hidden-eight")
        log.rollback(1)
        with log.fork() as child, log.fork(copy=True) as whole:
            take_turn(child, "hidden-nine")
            take_turn(whole, "hidden-ten")
        during = everything(tmp_path)
    assert len(store.search("hidden")) > 0
    assert store.list(forks=True, text="hidden")[0].first_message == "hidden-three"
    assert store.refresh_index().path is None
    store.tree()
    store.detach(child.id)
    store.seal(whole.id)
    with store.open(whole.id) as again:
        take_turn(again, "hidden-eleven")
    with log.path.open("ab") as file:
        file.write(b'{"torn')
    with store.open(log.id) as again:
        take_turn(again, "hidden-twelve")
    assert [name for name in (b"hidden", b"secret-folder", b"mock") if name in during + everything(tmp_path)] == []
    assert texts(rollout.reconstruct(child.id, home=tmp_path, cipher=a_cipher()))[-1] == "answer to hidden-nine"
    assert rollout.verify(child.id, home=tmp_path, cipher=a_cipher()).ok


def test_an_encrypted_log_does_all_that_a_plain_one_does(tmp_path: Path) -> None:
    said: list[list[object]] = []
    for store in (a_store(tmp_path / "plain"), a_secret_store(tmp_path / "secret")):
        with a_log(store) as log:
            take_turn(log, "q1")
            take_turn(log, "q2")
            log.rollback(1)
            log.compact([b.user_item("short")], "summary")
            take_turn(log, "q3")
            with log.fork(at=log.resume_state().turns[0].id) as child:
                take_turn(child, "f")
        with store.open(child.id, session_id="s", tags={"k": "v"}) as again:
            take_turn(again, "f2")
            with again.fork(copy=True) as whole:
                take_turn(whole, "w")
        cipher = None if store.home.name == "plain" else a_cipher()
        states = [rollout.reconstruct(path.path, cipher=cipher) for path in (log, child, whole)]
        assert all(rollout.verify(path.path, cipher=cipher).ok for path in (log, child, whole))
        said.append([[texts(state), [turn.status for turn in state.turns], state.previous_model] for state in states])
        rows = store.list(forks=True)
        said[-1].append([(row.first_message, row.turns, row.session_ids) for row in rows])
    assert said[0] == said[1]


def test_a_home_without_its_keys_is_listed_with_the_trouble_and_nothing_is_kept_of_it(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        take_turn(log, "hidden")
    (row,) = Store(tmp_path).list()
    assert (row.id, row.first_message) == (log.id, None)
    assert "encrypted with key 'k1'" in str(row.trouble)
    assert len(Store(tmp_path).search("hidden")) == 0
    assert b"hidden" not in everything(tmp_path)
    assert a_secret_store(tmp_path).list()[0].first_message == "hidden"


def test_rekeying_keeps_every_place_so_that_forks_go_on(tmp_path: Path) -> None:
    with a_secret_log(a_secret_store(tmp_path)) as log:
        take_turn(log, "q")
        with log.fork() as child:
            take_turn(child, "f")
        log.compact([b.user_item("short")])
    before, size = told(rollout.reconstruct(log.path, cipher=a_cipher())), log.path.stat().st_size
    mtime = log.path.stat().st_mtime_ns
    assert Store(tmp_path).keys_of(log.id) == {"k1"}
    Store(tmp_path, cipher=Cipher(BOTH, "k2")).rekey(log.id)
    assert Store(tmp_path).keys_of(log.id) == {"k2"}
    Store(tmp_path, cipher=Cipher(BOTH, "k2")).rekey(child.id)
    new = a_cipher(OTHER_KEY, "k2")
    assert told(rollout.reconstruct(log.path, cipher=new)) == before
    assert (log.path.stat().st_size, log.path.stat().st_mtime_ns) == (size, mtime)
    assert texts(rollout.reconstruct(child.path, cipher=new)) == ["q", "answer to q", "f", "answer to f"]
    assert rollout.verify(child.path, cipher=new).ok
    with pytest.raises(NoKey):
        rollout.reconstruct(log.path, cipher=a_cipher())


def test_a_plain_rollout_is_encrypted_and_its_words_leave_the_index(tmp_path: Path) -> None:
    plain = a_store(tmp_path)
    with a_log(plain) as log:
        take_turn(log, "hidden")
    plain.refresh_index()
    assert len(plain.search("hidden")) == 2
    before = told(rollout.reconstruct(log.path))
    assert b"hidden" in everything(tmp_path)
    a_secret_store(tmp_path).rekey(log.id)
    assert b"hidden" not in everything(tmp_path)
    assert told(rollout.reconstruct(log.path, cipher=a_cipher())) == before
    with a_secret_store(tmp_path).open(log.id) as again:
        take_turn(again, "more")
    assert rollout.verify(log.path, cipher=a_cipher()).ok


def test_a_plain_rollout_with_forks_is_not_encrypted_before_they_stand_alone(tmp_path: Path) -> None:
    with a_log(a_store(tmp_path)) as log:
        take_turn(log, "q")
        with log.fork() as child:
            take_turn(child, "f")
    a_store(tmp_path).archive(child.id)  # into another folder
    before = log.path.read_bytes()
    store = a_secret_store(tmp_path)
    for by in (store, a_secret_store(tmp_path / "another home")):
        with pytest.raises(InUse, match="detach those first"):
            by.rekey(log.path)
    assert log.path.read_bytes() == before
    store.detach(child.id)
    store.rekey(log.id)
    assert texts(rollout.reconstruct(store.resolve(child.id))) == ["q", "answer to q", "f", "answer to f"]


def test_decrypting_gives_the_plain_log_back_once_its_forks_stand_alone(tmp_path: Path) -> None:
    store = a_secret_store(tmp_path)
    with a_secret_log(store) as log:
        take_turn(log, "q")
        with log.fork() as child:
            take_turn(child, "f")
    before, encrypted = told(rollout.reconstruct(log.path, cipher=a_cipher())), log.path.read_bytes()
    with pytest.raises(InUse, match="detach those first"):
        store.decrypt(log.id)
    assert log.path.read_bytes() == encrypted
    store.decrypt(log.id, detach_forks=True)
    assert told(rollout.reconstruct(log.path)) == before
    lines = log.path.read_bytes().splitlines()
    assert [json.loads(line)["ordinal"] for line in lines][:3] == [0, 1, 2]
    assert not any(line.endswith(b" ") for line in lines)
    assert texts(rollout.reconstruct(child.path, cipher=a_cipher())) == ["q", "answer to q", "f", "answer to f"]


@pytest.mark.parametrize("what", ["damaged", "sealed", "no key"])
def test_what_cannot_be_rekeyed_stays_as_it_is(tmp_path: Path, what: str) -> None:
    store = a_secret_store(tmp_path)
    with a_secret_log(store) as log:
        take_turn(log, "q")
    path = log.path
    if what == "damaged":
        path.write_bytes(path.read_bytes().replace(b'"ordinal":3', b'"ordinal":9'))
    elif what == "sealed":
        path = store.seal(log.id).path
    before = path.read_bytes()
    with pytest.raises((UsageError, rollout.RolloutError)):
        (Store(tmp_path) if what == "no key" else store).rekey(log.id)
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) <= 2


def whole_text(path: Path, cipher: Cipher) -> bytes:
    return b"".join(record.raw for record in rollout.records(path, cipher=cipher))


def test_a_line_that_was_written_with_a_time_to_live_is_read_like_any_other(tmp_path: Path) -> None:
    """Earlier versions wrote `expires` ahead of the type, and showed no word of the line from then on."""
    cipher, mortal = a_cipher(), b.user("q").replace(b'"type"', b'"expires":"2020-01-01T00:00:00.000Z","type"', 1)
    head = enciphered([b.session_meta()], cipher)
    (line,) = LineCipher(cipher, b.THREAD).lines([mortal], 1)
    assert b',"expires":"2020-01-01T00:00:00.000Z","type":"response_item"' in line
    assert texts(rollout.reconstruct(head + line, cipher=cipher)) == ["q"]
    assert [found.status for found in rollout.explain(head + line, cipher=cipher)] == ["metadata", "visible"]
    assert rollout.reconstruct(head + line.replace(b"2020-", b"2030-"), cipher=cipher).damage


def test_only_encrypted_files_are_looked_at_through_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    text: dict[str, Any] = {"type": "message", "role": "user", "content": '{"encrypted":{"v":1,"key":"k1"'}
    path.write_bytes(b.log(b.session_meta(), b.line("response_item", text)))
    opened = open_path(path)
    assert opened.source is opened.stored
    opened.close()


def test_in_a_home_with_keys_plain_rollouts_stay_plain_and_their_forks_are_encrypted(tmp_path: Path) -> None:
    with a_log(a_store(tmp_path)) as log:
        take_turn(log, "plain")
    store = a_secret_store(tmp_path, start=START + 60)
    with store.open(log.id) as again:
        take_turn(again, "still plain")
        with again.fork() as child, again.fork(copy=True) as whole:
            take_turn(child, "hidden")
            take_turn(whole, "hidden")
    assert b"still plain" in log.path.read_bytes()
    assert rollout.verify(log.path).ok
    for fork in (child, whole):
        assert b"hidden" not in fork.path.read_bytes()
        assert texts(rollout.reconstruct(fork.path, cipher=a_cipher()))[-3::2] == [
            "answer to still plain",
            "answer to hidden",
        ]
        assert rollout.verify(fork.path, cipher=a_cipher()).ok
    assert [row.first_message for row in store.list(forks=True)] == ["plain"] * 3
    with pytest.raises(NoKey):
        Store(tmp_path).detach(child.id)
    store.detach(child.id)
    assert b"plain" not in child.path.read_bytes()
    assert rollout.verify(child.path, cipher=a_cipher()).ok
