"""The tree of a home: who was forked from whom, went back, was started by whom, and what cannot be so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rollout import SessionTree, Store
from tests import builders as b
from tests.homes import meta_of, path_of, put, put_data, thread_id


def shape(nodes: tuple[SessionTree, ...]) -> list[Any]:
    """(relation, number of the thread, children) of each node; works for trees that are not too deep."""
    return [(node.relation, int(node.row.id[-12:], 16), shape(node.children)) for node in nodes]


def tree(home: Path) -> list[Any]:
    return shape(Store(home).tree())


def base_of(path: Path, end: int | None = None) -> dict[str, Any]:
    """The file at `path` as a base: the last id of its name says which it is."""
    return {"thread_id": path.stem[-36:], "end_byte_offset": path.stat().st_size if end is None else end}


def subagent_of(n: int) -> dict[str, Any]:
    return {"subagent": {"thread_spawn": {"parent_thread_id": thread_id(n), "depth": 1}}}


def test_roots_come_newest_first_and_the_children_of_each_oldest_first(tmp_path: Path) -> None:
    put(tmp_path, 1, b.user("a"))
    put(tmp_path, 2, b.user("b"), archived=True)
    for n in (5, 3, 4):
        put(tmp_path, n, b.user("c"), forked_from_id=thread_id(1))
    assert tree(tmp_path) == [
        ("root", 2, []),
        ("root", 1, [("fork", 3, []), ("fork", 4, []), ("fork", 5, [])]),
    ]


def test_forks_reverts_and_subagents_stand_under_what_they_go_on_from(tmp_path: Path) -> None:
    root = put(tmp_path, 1, b.user("a"), b.user("b"))
    revert = put_data(
        path_of(tmp_path, 1, part=8, at=5), b.log(meta_of(1, history_base=base_of(root)), b.user("again"))
    )
    put_data(path_of(tmp_path, 1, part=9, at=6), b.log(meta_of(1, history_base=base_of(revert)), b.user("more")))
    put(tmp_path, 2, b.user("c"), history_base=base_of(revert))
    put(tmp_path, 3, b.user("d"), source=subagent_of(1))
    put(tmp_path, 4, b.user("e"), source=subagent_of(3), forked_from_id=thread_id(3))
    assert tree(tmp_path) == [
        (
            "root",
            1,
            [
                ("subagent", 3, [("subagent", 4, [])]),
                ("revert", 1, [("fork", 2, []), ("revert", 1, [])]),
            ],
        )
    ]
    (node,) = Store(tmp_path).tree()
    assert (node.row.path, node.row.files) == (root, 1)
    assert node.children[1].row.path == revert


def test_a_rollout_whose_parent_is_not_here_is_a_root_that_says_so(tmp_path: Path) -> None:
    put(tmp_path, 1, b.user("a"), forked_from_id=thread_id(77))
    put(tmp_path, 2, b.user("b"), source=subagent_of(78))
    put(tmp_path, 3, b.user("c"), source={"subagent": "review"})
    put_data(path_of(tmp_path, 4), b"")
    nodes = Store(tmp_path).tree()
    assert shape(nodes) == [("root", n, []) for n in (4, 3, 2, 1)]
    assert [node.note for node in nodes[:2]] == [None, None]
    assert thread_id(78) in (nodes[2].note or "")
    assert thread_id(77) in (nodes[3].note or "")


def test_parents_that_lead_round_in_a_circle_are_opened_where_the_oldest_stands(tmp_path: Path) -> None:
    for n, parent in ((1, 1), (2, 4), (3, 2), (4, 3), (5, 3)):
        put(tmp_path, n, b.user("q"), forked_from_id=thread_id(parent))
    nodes = Store(tmp_path).tree()
    assert shape(nodes) == [
        ("root", 2, [("fork", 3, [("fork", 4, []), ("fork", 5, [])])]),
        ("root", 1, []),
    ]
    assert [node.note is None for node in nodes] == [False, True]


def test_a_chain_of_forks_of_any_length_has_a_tree(tmp_path: Path) -> None:
    length = 1100  # more than Python's stack
    for n in range(length):
        put(tmp_path, n, b.user("q"), forked_from_id=thread_id(n - 1) if n else None)
    (node,) = Store(tmp_path).tree()
    depth = 1
    while node.children:
        (node,) = node.children
        depth += 1
    assert depth == length
    assert node.row.id == thread_id(length - 1)
    assert "children" not in repr(node)


def test_an_empty_home_has_no_tree(tmp_path: Path) -> None:
    assert Store(tmp_path).tree() == ()
