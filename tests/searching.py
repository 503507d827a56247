"""What the tests of search ask with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rollout import Hit, Hits, Store


def hits(store: Store, query: str, **more: Any) -> list[Hit]:
    """All of them, three at a time."""
    found: list[Hit] = []
    page: Hits | None = None
    while page is None or page.cursor is not None:
        page = store.search(query, limit=3, cursor=None if page is None else page.cursor, **more)
        found += page
    return found


def snippets(found: Iterable[Hit]) -> list[str]:
    return [hit.snippet for hit in found]


def marked(hit: Hit) -> str:
    """The snippet with its matches in brackets."""
    text, at = "", 0
    for start, end in hit.matches:
        text += hit.snippet[at:start] + "[" + hit.snippet[start:end] + "]"
        at = end
    return text + hit.snippet[at:]
