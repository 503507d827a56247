"""What the commands show of what the library gave: as JSON for scripts, `…_json`, and as rows for people, `…_rows`.

The keys of JSON and their order are an interface: other people's scripts rely on them. New keys go behind the old
ones. Items of a history are spliced in as they were recorded; integers of any size are written exactly.
Rows are for so many columns of a terminal, or as long as they are for None. They are neither printed nor escaped here:
`Output` makes every text printable.
"""

from __future__ import annotations

import functools
import json as python_json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from rollout_cli.failures import FINE
from rollout_cli.terminal import Output, Row

_encoder = msgspec.json.Encoder(enc_hook=os.fspath, decimal_format="number")


def show(
    json: bool, document: Iterable[bytes], rows: Callable[[int | None], Iterable[Row]], out: Output | None = None
) -> int:
    """Print a JSON document in pieces of whole tokens or, to read, the rows for a width of columns; the exit code."""
    out = out or Output()
    if json:
        out.print_json(document)
    else:
        out.print(rows(out.columns))
    return FINE


def pick(value: object, keys: str) -> dict[str, Any]:
    """The attributes that JSON has, in order: their names, or `key=name` where the key is another; `a.b` is b of a."""
    return {key: get(value) for key, get in _getters(keys)}


@functools.cache
def _getters(keys: str) -> list[tuple[str, operator.attrgetter[Any]]]:
    words = (word.partition("=") for word in keys.split())
    return [(key, operator.attrgetter(name or key)) for key, _, name in words]


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
