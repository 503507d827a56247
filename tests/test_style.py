"""The style of the house, as far as a test can see it: docstrings, names, what may not be silenced, long modules."""

from __future__ import annotations

import ast
import functools
import re
import tokenize
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parent.parent
FOLDERS = ("rollout", "cli", "tests", "bench", "examples", "docs")
MODULE_LINES = 600
LONGER_MODULES = {"tests/reference.py"}  # the rules in one piece, to be read beside their text

FILES = {str(path.relative_to(ROOT)): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}

UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b")
REASONED_IGNORE = re.compile(r"#\s*type: ignore\[[a-z-]+(, ?[a-z-]+)*\]\s*#\s*\S+ \S+")
CODED_NOQA = re.compile(r"#\s*noqa: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)*")

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def source(name: str) -> bytes:
    return FILES[name].read_bytes()


@functools.cache
def nodes(name: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source(name))))


def comments(name: str) -> Iterator[str]:
    """Each comment, with what follows it on its line, and where it stands."""
    for token in tokenize.tokenize(BytesIO(source(name)).readline):
        if token.type == tokenize.COMMENT:
            yield f"{token.string} ({name}, line {token.start[0]})"


def functions(name: str) -> Iterator[Function]:
    for node in nodes(name):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_module_is_so_long_that_nobody_reads_it_in_one_go() -> None:
    """About 400 lines are a sign to look whether a module says two things; this is no limit to stay under.

    Splitting what belongs together costs a reader more than length does, and so does squeezing its lines. So this asks
    for no more than that a module has not grown without end, and nothing at all of functions and classes.
    """
    lines = {name: len(source(name).splitlines()) for name in FILES if name not in LONGER_MODULES}
    assert not {name: n for name, n in lines.items() if n > MODULE_LINES}


def test_a_module_opens_with_its_contract_in_a_sentence() -> None:
    for name in FILES:
        (module,) = [node for node in nodes(name) if isinstance(node, ast.Module)]
        contract = ast.get_docstring(module) if source(name) else "An empty file makes a folder a package."
        assert contract is not None, name
        assert re.search(r"[.:]($|\n)", contract), (name, contract)


def test_the_name_of_a_test_is_a_sentence_of_four_words_or_more() -> None:
    files = [name for name in FILES if Path(name).name.startswith("test_")]
    tests = [(name, node.name) for name in files for node in functions(name) if node.name.startswith("test_")]
    assert not [(name, test) for name, test in tests if len(test.removeprefix("test_").split("_")) < 4]


def test_nothing_is_left_to_be_finished_later() -> None:
    lines = [(name, line) for name in FILES for line in source(name).decode().splitlines()]
    assert not [(name, line) for name, line in lines if UNFINISHED.search(line)]


def test_no_exception_is_caught_without_saying_which() -> None:
    handlers = [(name, node) for name in FILES for node in nodes(name) if isinstance(node, ast.ExceptHandler)]
    assert not [(name, node.lineno) for name, node in handlers if node.type is None]


def test_what_is_silenced_names_its_code_and_its_reason() -> None:
    for comment in (comment for name in FILES for comment in comments(name)):
        assert "type: ignore" not in comment or REASONED_IGNORE.search(comment), comment
        assert "noqa" not in comment or CODED_NOQA.search(comment), comment


def test_no_number_is_read_in_digits_that_are_not_ascii() -> None:
    """`int` takes the digits of every script, so what finds them must not: \\d in a text does, and so does isdigit."""
    for name in (name for name in FILES if name.startswith(("rollout/", "cli/"))):
        lines = source(name).decode().splitlines()
        for node in nodes(name):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert "\\d" not in node.value, (name, node.lineno, "write [0-9]")
            elif isinstance(node, ast.Attribute) and node.attr in {"isdigit", "isdecimal", "isnumeric"}:
                is_any_text = name == "rollout/items/redaction.py"  # what looks at texts, and reads no number
                assert is_any_text or "isascii" in lines[node.lineno - 1], (name, node.lineno)
