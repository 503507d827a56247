"""What the tests of lists ask with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rollout import SessionPage, SessionRow, Store


def numbers(page: SessionPage) -> list[int]:
    return [int(row.id[-12:], 16) for row in page]


def pages(store: Store, **filters: Any) -> Iterator[SessionPage]:
    page = store.list(**filters)
    yield page
    while page.cursor is not None:
        page = store.list(cursor=page.cursor, **filters)
        yield page


def all_rows(store: Store, **filters: Any) -> list[SessionRow]:
    return [row for page in pages(store, **filters) for row in page]


def only(store: Store, **filters: Any) -> SessionRow:
    (row,) = store.list(**{"archived": None, "subagents": True, "forks": True, **filters})
    return row
