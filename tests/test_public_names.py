"""The public names are loaded when they are asked for, and are the same for a program as for a type checker."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import json
import pydoc
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import rollout
from rollout import errors, limits
from rollout.files import port
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
        "rollout.store",
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


def is_error(found: object) -> bool:
    return inspect.isclass(found) and issubclass(found, BaseException)


PUBLIC = {*rollout.__all__, *vars(errors), *vars(limits), *vars(port)}
NAMES_OF_ERRORS = "|".join(name for name, found in vars(errors).items() if is_error(found))
ERRORS = re.compile(rf"\b(?:{NAMES_OF_ERRORS}|[A-Z]\w*Error)\b")


MADE_BY_USERS = {"Cipher", "Limits", "Redactor", "Store", "Truncation", "TurnContext"}
"""The classes that are made by a call; of the others, which are results, nobody asks what makes them."""


def signatures() -> dict[str, Callable[..., Any]]:
    """Every public function, and each public method and property of the public classes that is written here."""
    found: dict[str, Callable[..., Any]] = {}
    for name in rollout.__all__:
        thing = getattr(rollout, name)
        if not inspect.isclass(thing):
            if callable(thing) and inspect.isfunction(thing):
                found[name] = thing
            continue
        for cls in (cls for cls in thing.__mro__ if cls.__module__.startswith("rollout")):
            for member, raw in vars(cls).items():
                function: Any = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
                is_public = not member.startswith("_") or (member == "__init__" and name in MADE_BY_USERS)
                if is_public and inspect.isfunction(function):
                    found.setdefault(f"{name}.{member}", inspect.unwrap(function))
    return found


SIGNATURES = signatures()


def is_resolved(thing: Any) -> bool:
    try:
        typing.get_type_hints(thing)
    except (NameError, TypeError):
        return False
    return True


def hidden_types(annotations: Mapping[str, Any], names: Mapping[str, Any]) -> set[str]:
    """The names in annotations that are this library's own and not public; `names` are those of their module."""
    found: set[str] = set()
    written = [
        node
        for text in annotations.values()
        for node in ast.walk(ast.parse(str(getattr(text, "__forward_arg__", text))))
    ]
    for name in {node.id for node in written if isinstance(node, ast.Name)} - PUBLIC - vars(builtins).keys():
        known = names.get(name)
        if inspect.ismodule(known) or isinstance(known, typing.TypeVar) or known is Any:
            continue
        if getattr(known, "__name__", "") != name or known.__module__.startswith("rollout"):
            found.add(name)
    return found


def told_in_passing(doc: str) -> set[str]:
    """Errors that a docstring names elsewhere than as the entries of its `Raises:`."""
    text, _, section = doc.partition("Raises:\n")
    entries = re.findall(r"^ +(\w+): ", section, re.MULTILINE)
    return {*ERRORS.findall(text)} | {entry for entry in entries if not ERRORS.fullmatch(entry)}


def test_the_hints_of_whatever_is_public_can_be_resolved() -> None:
    classes = {name: getattr(rollout, name) for name in rollout.__all__ if inspect.isclass(getattr(rollout, name))}
    assert not {name for name, thing in {**SIGNATURES, **classes}.items() if not is_resolved(thing)}


def test_every_type_in_a_public_signature_and_of_a_public_field_is_public() -> None:
    told = {
        f"{name}: {type}"
        for name, function in SIGNATURES.items()
        for type in hidden_types(function.__annotations__, function.__globals__)
    }
    for name in rollout.__all__:
        thing = getattr(rollout, name)
        if inspect.isclass(thing) and thing.__module__.startswith("rollout"):
            fields = {field: type for field, type in vars(thing).get("__annotations__", {}).items() if field[0] != "_"}
            told |= {f"{name}: {type}" for type in hidden_types(fields, vars(sys.modules[thing.__module__]))}
    assert not told


def test_what_is_raised_stands_in_a_section_of_its_own() -> None:
    told = {name for name, function in SIGNATURES.items() if told_in_passing(inspect.getdoc(function) or "")}
    assert not told


PUBLIC_CLASSES = [found for name in rollout.__all__ if isinstance(found := getattr(rollout, name), type)]


def carried_by(shown: type) -> Iterator[str]:
    """What the methods of a class, and of those of ours that it is made of, give to an instance."""
    for base in (base for base in shown.__mro__ if base.__module__ in MODULES):
        for node in tree(base.__module__).body:
            if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                for part in ast.walk(node):
                    match part:
                        case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                            yield name


@pytest.mark.parametrize("shown", PUBLIC_CLASSES, ids=lambda shown: shown.__name__)
def test_help_shows_what_an_instance_of_a_public_class_carries(shown: type) -> None:
    declared = {*dir(shown), *(name for base in shown.__mro__ for name in inspect.get_annotations(base))}
    assert not [name for name in carried_by(shown) if not name.startswith("_") and name not in declared]


def test_a_state_is_made_of_fields_that_help_shows() -> None:
    names = [field.name for field in dataclasses.fields(rollout.State) if not field.name.startswith("_")]
    assert {"history", "previous_model", "reference", "world_state", "token_usage", "damage"} <= {*names}
    shown = pydoc.plain(pydoc.render_doc(rollout.State))
    assert not [name for name in names if f"{name}: " not in shown]
