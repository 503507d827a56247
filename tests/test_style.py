"""The style of the house, as far as a test can see it: sizes, docstrings, names, and what may not be silenced.

Sizes count every line of the file or function, comments and docstrings too.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("rollout", "cli", "tests", "bench", "examples", "docs")
MODULE_LINES = 400
LONGER_MODULES = {"tests/reference.py": 750}  # the rules in one piece, to be read beside their text
FUNCTION_LINES = 70

FILES = {str(path.relative_to(ROOT)): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}
SOURCES = {name: path.read_bytes() for name, path in FILES.items()}
TREES = {name: ast.parse(source) for name, source in SOURCES.items()}
TEST_FILES = [name for name in FILES if Path(name).name.startswith("test_")]

UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b")
REASONED_IGNORE = re.compile(r"#\s*type: ignore\[[a-z-]+(, ?[a-z-]+)*\]\s*#\s*\S+ \S+")
CODED_NOQA = re.compile(r"#\s*noqa: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)*")

every_file = pytest.mark.parametrize("name", FILES)


def comments(name: str) -> Iterator[str]:
    """Each comment, with what follows it on its line, and where it stands."""
    for token in tokenize.tokenize(BytesIO(SOURCES[name]).readline):
        if token.type == tokenize.COMMENT:
            yield f"{token.string} (line {token.start[0]})"


def functions(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


@every_file
def test_a_module_is_short_enough_to_be_read_in_one_go(name: str) -> None:
    lines = len(SOURCES[name].splitlines())
    assert lines <= LONGER_MODULES.get(name, MODULE_LINES)


@every_file
def test_a_function_is_short_enough_to_be_seen_at_once(name: str) -> None:
    assert not [(node.name, lines_of(node)) for node in functions(name) if lines_of(node) > FUNCTION_LINES]


@every_file
def test_a_module_opens_with_its_contract_in_a_sentence(name: str) -> None:
    contract = ast.get_docstring(TREES[name]) if SOURCES[name] else "An empty file makes a folder a package."
    assert contract is not None
    assert re.search(r"[.:]($|\n)", contract), contract


@pytest.mark.parametrize("name", TEST_FILES)
def test_the_name_of_a_test_is_a_sentence_of_four_words_or_more(name: str) -> None:
    tests = [node.name for node in functions(name) if node.name.startswith("test_")]
    assert not [test for test in tests if len(test.removeprefix("test_").split("_")) < 4]


@every_file
def test_nothing_is_left_to_be_finished_later(name: str) -> None:
    assert not [line for line in SOURCES[name].decode().splitlines() if UNFINISHED.search(line)]


@every_file
def test_no_exception_is_caught_without_saying_which(name: str) -> None:
    handlers = [node for node in ast.walk(TREES[name]) if isinstance(node, ast.ExceptHandler)]
    assert not [node.lineno for node in handlers if node.type is None]


@every_file
def test_what_is_silenced_names_its_code_and_its_reason(name: str) -> None:
    for comment in comments(name):
        assert "type: ignore" not in comment or REASONED_IGNORE.search(comment), comment
        assert "noqa" not in comment or CODED_NOQA.search(comment), comment
