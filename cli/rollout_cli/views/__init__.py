"""What the commands show: a view of what the library gave, as JSON for scripts and as rows for people.

The keys of a view's JSON and their order are an interface: other people's scripts rely on them. New keys go behind the
old ones. Items of a history are spliced in as they were recorded; integers of any size are written exactly.
Rows are neither printed nor escaped here: `Output` makes every text printable.
"""

from __future__ import annotations

import functools
import json as python_json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from rollout_cli.failures import FINE
from rollout_cli.terminal import Output, Row

_encoder = msgspec.json.Encoder(enc_hook=os.fspath, decimal_format="number")


class View(Protocol):
    """One answer of one command."""

    def json(self) -> Iterable[bytes]:
        """One JSON document, in pieces of whole tokens."""

    def rows(self, columns: int | None) -> Iterable[Row]:
        """The same to read. `columns` is the width of the terminal, None where rows may be as long as they are."""


def show(view: View, *, json: bool, out: Output | None = None) -> int:
    """Print a view; the exit code."""
    out = out or Output()
    if json:
        out.print_json(view.json())
    else:
        out.print(view.rows(out.columns))
    return FINE


def pick(value: object, keys: str) -> dict[str, Any]:
    """The attributes of a result that its JSON has, in order: their names, or `key=name` where the key is another."""
    return {key: getattr(value, name) for key, name in _named(keys)}


@functools.cache
def _named(keys: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, name or key) for key, _, name in (word.partition("=") for word in keys.split()))


def encode(value: object) -> bytes:
    """A value as JSON; paths as their text."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # a file name of bytes that are no text: Python has them as lone surrogates
        return python_json.dumps(msgspec.to_builtins(value, enc_hook=os.fspath)).encode()


def members(values: Mapping[str, Any]) -> Iterator[bytes]:
    """One object; a value that is an iterator gives the pieces of its JSON."""
    separator = b"{"
    for key, value in values.items():
        yield separator + encode(key) + b":"
        if isinstance(value, Iterator):
            yield from value
        else:
            yield encode(value)
        separator = b","
    yield b"}"


def array(values: Iterable[object]) -> Iterator[bytes]:
    """One array, an element a line; elements that are bytes are JSON already."""
    separator = b"["
    for value in values:
        yield separator + (value if isinstance(value, bytes) else encode(value))
        separator = b",\n"
    yield b"[]" if separator == b"[" else b"]"
