"""The public names are loaded when they are asked for, and are the same for a program as for a type checker."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys

import pytest

import rollout
from tests.cli import environment
from tests.test_layers import MODULES, tree

LAZY = """
import json, sys
import rollout

def ours():
    return sorted(name for name in sys.modules if name.partition(".")[0] == "rollout")

seen = {"import": ours()}
rollout.Limits
seen["limits"] = ours()
from rollout import reconstruct
seen["reconstruct"] = [*ours(), *({"sqlite3", "asyncio", "cryptography"} & set(sys.modules))]
there = {}
exec("from rollout import *", there)
seen["star"] = sorted(there)
json.dump(seen, sys.stdout)
"""


def checked_imports() -> dict[str, tuple[str, str]]:
    """What a type checker sees: each public name, its module, and its name there."""
    choices = [node for node in tree("rollout").body if isinstance(node, ast.If)]
    (guarded,) = [node for node in choices if ast.unparse(node.test) == "TYPE_CHECKING"]
    found: dict[str, tuple[str, str]] = {}
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return found


def test_a_type_checker_and_a_program_find_the_same_names_in_the_same_places() -> None:
    checked = checked_imports()
    assert sorted(checked) == sorted(rollout.__all__)
    for name, (module, original) in checked.items():
        assert getattr(rollout, name) is getattr(importlib.import_module(module), original), name
    assert set(rollout.__all__) <= set(dir(rollout))


def test_no_public_name_is_hidden_by_a_module_of_that_name() -> None:
    assert not [name for name in rollout.__all__ if f"rollout.{name}" in MODULES]


def test_what_is_not_asked_for_is_not_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAZY], capture_output=True, env=environment(), timeout=60, check=True
    )  # fmt: skip
    seen = json.loads(done.stdout)
    assert seen["import"] == ["rollout"]
    assert seen["limits"] == ["rollout", "rollout.limits"]
    assert "rollout.fold.engine" in seen["reconstruct"]
    beyond = (
        "rollout.home.index",
        "rollout.home.maintenance",
        "rollout.home.store",
        "sqlite3",
        "asyncio",
        "cryptography",
    )
    assert not [name for name in seen["reconstruct"] if name.startswith(beyond)]
    assert set(rollout.__all__) <= set(seen["star"])


def test_a_name_that_is_not_there_is_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'rollout' has no attribute 'nothing'"):
        getattr(rollout, "nothing")  # noqa: B009 - to a type checker it is not there either
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from rollout import nothing", {})
