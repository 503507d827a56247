"""Modules that are imported late: when they are first used, and the same for a program as for a type checker."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from rollout import late
from tests.cli import environment


def checked_modules() -> dict[str, str]:
    """What a type checker sees: each name, and the package that its module is in."""
    tree = ast.parse(Path(str(late.__file__)).read_bytes())
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    found: dict[str, str] = {}
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        found |= {alias.name: node.module for alias in node.names}
    return found


def test_a_type_checker_and_a_program_find_the_same_modules() -> None:
    assert checked_modules() == late._PACKAGES
    for name, package in checked_modules().items():
        assert getattr(late, name) is importlib.import_module(f"{package}.{name}")


def test_a_store_that_is_made_has_imported_none_of_them() -> None:
    program = "import rollout, sys; rollout.Store(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env=environment(), timeout=60, check=True
    )  # fmt: skip
    modules = set(done.stdout.decode().split())
    assert "rollout.store" in modules
    assert {f"{package}.{name}" for name, package in checked_modules().items()}.isdisjoint(modules)


def test_a_module_that_is_not_among_them_is_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match=r"module 'rollout.late' has no attribute 'nothing'"):
        getattr(late, "nothing")  # noqa: B009 - to a type checker it is not there either
