"""The layers of the house, checked on the imports as they are written.

Each layer may import the standard library, its own third parties, itself and the layers below it. The core does no I/O,
reads no clock, draws no random number. Nothing imports the command line, which sees public names only.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

import rollout

ROOT = Path(__file__).parent.parent
IMPURE = {
    *{
        "asyncio",
        "concurrent",
        "fcntl",
        "fileinput",
        "glob",
        "io",
        "logging",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
    },
    *{
        "queue",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
    },
    *{"urllib", "http", "time", "random", "secrets", "uuid", "gzip", "bz2", "lzma", "zstandard"},
}
IMPURE_CALLS = {"open", "print", "input", "breakpoint", "exec", "eval"}
CLOCKS = {"now", "utcnow", "today"}


LAYERS = {  # from the bottom up: a layer may import what stands above it here, and these third parties
    "rollout.errors": set(),
    "rollout.limits": set(),
    "rollout.ids": set(),
    "rollout.format": {"msgspec", "orjson"},
    "rollout.items": {"msgspec", "orjson"},
    "rollout.dialects": {"msgspec", "orjson"},
    "rollout.fold": {"msgspec", "orjson"},
    "rollout.files": {"cryptography", "msgspec", "orjson", "zstandard"},
    "rollout.session": {"msgspec", "orjson"},
    "rollout.home": {"msgspec", "orjson", "zstandard"},
    "rollout": {"msgspec"},
    "rollout.adapters": {"agents", "anyio", "mcp", "msgspec", "orjson", "pydantic"},
    "rollout.testing": {"hypothesis", "msgspec", "orjson", "zstandard"},
    "rollout_cli": {"jinja2", "markupsafe", "msgspec", "orjson", "rich", "typer"},
}
ORDER = list(LAYERS)
PURE = ("rollout.format", "rollout.items", "rollout.dialects", "rollout.fold")
UPWARD: set[tuple[str, str]] = set()
"""What still has to be taken down: the test fails as well where one of these is not there any more."""
SIDES = {"rollout.dialects", "rollout.fold"}
"""They do not know each other: `session` and `home` hand one to the other."""
CIRCLES: set[tuple[str, str]] = set()
"""What still has to be untied: an import of the second by the first."""
ABOVE_THE_LIBRARY = ("rollout.adapters", "rollout.testing", "rollout_cli")
PUBLIC_MODULES = {
    "rollout",
    "rollout.agent_tools",
    "rollout.errors",
    "rollout.limits",
    "rollout.testing",
    "rollout.adapters",
    "rollout.adapters.mcp",
    "rollout.adapters.responses.server",
}


def modules() -> dict[str, Path]:
    """Every module of the library and the command line, by its dotted name."""
    found = {}
    for base, package in ((ROOT, "rollout"), (ROOT / "cli", "rollout_cli")):
        for path in sorted((base / package).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


@functools.cache
def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_bytes())


@functools.cache
def nodes(name: str) -> list[ast.AST]:
    return list(ast.walk(tree(name)))


@functools.cache
def imports(name: str) -> frozenset[str]:
    """The modules that `name` imports, wherever in it; `from a import b` is a.b where that is a module, else a."""
    found: set[str] = set()
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes(name):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*up, *filter(None, [node.module])])
            for alias in node.names:
                found.add(f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base)
    return frozenset(found)


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def layer_of(module: str) -> str:
    """The longest name of a layer that a module stands in."""
    return max((name for name in LAYERS if within(module, name)), key=len)


def called_names(name: str) -> Iterator[tuple[str, int]]:
    for node in nodes(name):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                yield name, node.lineno
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
                yield name, node.lineno


def test_a_module_imports_only_from_its_own_layer_and_those_below_it() -> None:
    upward = set()
    for name, imported in [(module, imported) for module in MODULES for imported in imports(module)]:
        layer, top = layer_of(name), imported.partition(".")[0]
        if top not in {"rollout", "rollout_cli"}:
            assert top in sys.stdlib_module_names | LAYERS[layer], (name, imported)
        elif {layer, layer_of(imported)} == SIDES:
            continue  # of which a test of its own tells
        elif ORDER.index(layer_of(imported)) > ORDER.index(layer) and name != "rollout.testing":
            upward.add((name, imported))
    assert upward == UPWARD


def test_no_module_needs_itself_not_even_where_a_function_imports_what_it_uses() -> None:
    graph = {name: (imports(name) & MODULES.keys()) - {name} for name in MODULES}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(MODULES)


def test_every_import_is_written_as_one() -> None:
    """A module that is named by a text is found neither by a reader nor by a tool, nor by the tests above."""
    for name in MODULES:
        hidden = {module for module in imports(name) if module.partition(".")[0] in {"importlib", "pkgutil", "runpy"}}
        called = {called for called, _ in called_names(name)} & {"__import__", "exec", "eval"}
        assert not hidden | called, name


def test_the_house_has_at_most_ten_floors_and_sixteen_rooms() -> None:
    """A floor is a room and what it stands on, counted as far down as imports go."""
    rooms: dict[str, set[str]] = {}
    for name in MODULES:
        rooms.setdefault(layer_of(name), set()).update(layer_of(each) for each in imports(name) & MODULES.keys())
    below = {room: {each for each in found if ORDER.index(each) < ORDER.index(room)} for room, found in rooms.items()}
    floors: dict[str, int] = {}
    for room in graphlib.TopologicalSorter(below).static_order():
        floors[room] = 1 + max((floors[each] for each in below[room]), default=0)
    assert max(floors.values()) <= 10
    tops = {path.name.removesuffix(".py") for base in ("rollout", "cli") for path in (ROOT / base).iterdir()}
    assert len(tops - {"__init__", "__pycache__", "py.typed"}) <= 16


def test_dialects_and_the_fold_do_not_know_each_other() -> None:
    inner = [name for name in MODULES if layer_of(name) in SIDES]
    others = {name: {layer_of(i) for i in imports(name) if within(i, "rollout")} - {layer_of(name)} for name in inner}
    assert not {name for name in inner if others[name] & SIDES}


def test_the_core_does_no_io_and_knows_neither_clock_nor_chance() -> None:
    core = [name for name in MODULES if layer_of(name) in PURE]
    assert len(core) > 10
    for name in core:
        assert IMPURE.isdisjoint(module.partition(".")[0] for module in imports(name)), name
        calls = [f"{name}: {called} in line {line}" for called, line in called_names(name)]
        assert not [call for call in calls if call.split()[1] in IMPURE_CALLS | CLOCKS]


def test_nothing_in_the_library_imports_the_command_line_or_a_terminal() -> None:
    terminal = {"rollout_cli", "typer", "rich", "click"}
    for name in (name for name in MODULES if not within(name, "rollout_cli")):
        assert terminal.isdisjoint(module.partition(".")[0] for module in imports(name)), name


def test_the_library_does_not_import_what_is_built_on_it() -> None:
    for name in (name for name in MODULES if not name.startswith(ABOVE_THE_LIBRARY)):
        assert not [(name, module) for module in imports(name) if module.startswith(ABOVE_THE_LIBRARY)]


def test_the_command_line_uses_public_names_only() -> None:
    for name in (name for name in MODULES if within(name, "rollout_cli")):
        assert not [(name, m) for m in imports(name) if within(m, "rollout") and m not in PUBLIC_MODULES]
        for node in nodes(name):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rollout":
                assert node.attr in rollout.__all__ or f"rollout.{node.attr}" in PUBLIC_MODULES, (name, node.attr)


def test_the_public_names_are_written_out_and_all_of_them_exist() -> None:
    written = [node for node in tree("rollout").body if isinstance(node, ast.Assign | ast.AnnAssign)]
    (names,) = [node.value for node in written if "__all__" in ast.unparse(node).partition("=")[0]]
    assert names is not None
    assert ast.literal_eval(names) == list(rollout.__all__)
    assert len(set(rollout.__all__)) == len(rollout.__all__)
    assert not [name for name in rollout.__all__ if not hasattr(rollout, name)]
