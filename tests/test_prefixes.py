"""What a list says of forks of forks is what their readers say, in whatever order they are looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from rollout.home.index.entry import Summary
from rollout.home.index.scan import Seam, scan
from rollout.store import Store
from tests import builders as b
from tests import homes, shapes, strategies
from tests.test_digest import check

Fork = tuple[list[bytes], int, int]
forks = st.lists(
    st.tuples(strategies.any_lines(8), st.integers(0, 9), st.integers(0, 20)),
    min_size=1,
    max_size=7,
)


def family(home: Path, first: list[bytes], forks: list[Fork]) -> Iterator[Path]:
    """A thread, and forks that each go on from some line of some thread before it."""
    ends = [lines_of(home, 0, first)]
    yield homes.path_of(home, 0)
    for n, (own, drawn, line) in enumerate(forks, 1):
        source = drawn % n
        end = ends[source][line % len(ends[source])]
        base = {"thread_id": homes.thread_id(source), "end_byte_offset": end}
        ends.append(lines_of(home, n, own, history_base=base, forked_from_id=homes.thread_id(source)))
        yield homes.path_of(home, n)


def lines_of(home: Path, n: int, own: list[bytes], **keys: object) -> list[int]:
    """Writes a file; where its lines end."""
    found, data = [], b""
    for line in (homes.meta_of(n, **keys), *own):
        data += line + b"\n"
        found.append(len(data))
    homes.put_data(homes.path_of(home, n), data)
    return found


@given(strategies.any_lines(12), forks, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_a_family_of_forks_looked_at_in_any_order_says_what_its_readers_say(
    first: list[bytes], forks: list[Fork], random: Random
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = list(family(Path(folder), first, forks))
        random.shuffle(paths)
        prefixes: dict[Seam, Summary] = {}
        for path in paths:
            found = scan(path, Path(folder), prefixes=prefixes)
            check(found.entry, path, Path(folder))
            alone = scan(path, Path(folder))
            assert (found.entry, found.checkpoint) == (alone.entry, alone.checkpoint)


def test_labels_and_spent_tokens_of_a_chain_are_those_up_to_where_each_fork_begins(tmp_path: Path) -> None:
    def labelled(k: int) -> bytes:
        return b.line("response_item", b.assistant_item("a"), session_id=f"s{k}", tags={"k": str(k)})

    base: dict[str, object] = {}
    for k in range(4):
        lines = [homes.meta_of(k, **base), *shapes.whole_turn(k), labelled(k)]
        end = len(b.log(*lines))
        homes.put_data(homes.path_of(tmp_path, k), b.log(*lines, labelled(90 + k)))
        base = {"history_base": {"thread_id": homes.thread_id(k), "end_byte_offset": end}}
    rows = {row.id: row for row in Store(tmp_path).list(forks=True)}
    assert rows[homes.thread_id(3)].session_ids == ("s0", "s1", "s2", "s3", "s93")
    assert [rows[homes.thread_id(k)].tokens for k in range(4)] == [100, 200, 300, 400]
    assert Store(tmp_path).stats().spent.total == 400


def test_a_file_beneath_others_that_goes_away_or_comes_back_is_noticed_in_the_whole_chain(tmp_path: Path) -> None:
    shapes.chain(tmp_path, 6)
    store = Store(tmp_path)
    newest = homes.thread_id(5)

    def row() -> tuple[int, int]:
        found = next(row for row in store.list(limit=1, forks=True) if row.id == newest)
        return found.turns, found.damaged

    assert row() == (6, 0)
    first = homes.path_of(tmp_path, 0)
    first.rename(tmp_path / "elsewhere")
    assert row() == (5, 1)
    (tmp_path / "elsewhere").rename(first)
    assert row() == (6, 0)
    other = tmp_path / "other"
    other.write_bytes(first.read_bytes())
    other.rename(first)  # another file of the same name
    assert row() == (6, 0)
