"""The README and the pages of docs/ keep their word: their Python runs, their commands print what they show.

A ```python block runs from the root of the project, after the blocks above it on its page; a line `expression  # value`
says what the expression prints. In a ```console block each `$ rollout ...` runs and every line under it stands in its
output, in this order; a line of `...` alone stands for lines left out. The home that they see holds the sessions of
HOME_CASES.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in FILES}
HOME_CASES = ("p169_fork_of_fork", "p169_rollback_over_compact")
SHOWN = re.compile(r"(?P<expression>[^#\n]+?)  # (?P<value>.+)")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str, list[str]]]:
    """(page, command, the lines shown under it) for every command of every console block."""
    found: list[tuple[str, str, list[str]]] = []
    for page in PAGES:
        for line in "\n".join(blocks(page, "console")).splitlines():
            if line.startswith("$ "):
                found.append((page, line[2:], []))
            elif line.strip() not in {"", "..."}:
                found[-1][2].append(line.rstrip())
    return found


def words(line: str) -> str:
    """A line without the width of its columns, which follow the terminal."""
    return " ".join(line.split())


@functools.cache
def home() -> str:
    """The home of the console blocks; it goes when the tests end."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    for case in HOME_CASES:
        shutil.copytree(ROOT / "fixtures" / "cases" / case / "sessions", Path(folder, "sessions"), dirs_exist_ok=True)
    return folder


def run(command: str) -> subprocess.CompletedProcess[str]:
    scripts = sysconfig.get_path("scripts")
    program, *arguments = shlex.split(command)
    assert program == "rollout"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "ROLLOUT_HOME": home(), "TZ": "UTC", "COLUMNS": "120"}
    return subprocess.run(
        [Path(scripts, program), *arguments],
        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_the_python_of_a_page_runs_and_gives_the_values_it_shows(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    shown = 0
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
        for found in SHOWN.finditer(block):
            value = eval(found["expression"], names)
            assert found["value"] in {str(value), repr(value)}, found["expression"]
            shown += 1
    assert shown


@pytest.mark.parametrize(
    ("page", "command", "shown"), commands(), ids=lambda value: value if type(value) is str else ""
)
def test_a_command_of_a_page_prints_the_lines_shown_under_it(page: str, command: str, shown: list[str]) -> None:
    done = run(command)
    assert done.returncode == 0, done.stderr
    printed = iter([words(line) for line in done.stdout.splitlines()])
    for line in shown:
        assert words(line) in printed, f"{line}\nis not, or not there, in\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    for path in re.findall(r"\b(?:fixtures|tests|bench|examples|rollout|cli)/[\w./-]*\w", PAGES[page]):
        assert (ROOT / path).exists() or (ROOT / f"{path}.py").exists(), path


def test_every_module_that_the_design_names_is_there() -> None:
    rooms = [path.name for path in (ROOT / "rollout").iterdir() if path.is_dir()]
    named = re.findall(rf"`((?:{'|'.join(rooms)})/\w[\w/]*)`", PAGES["design.md"])
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / f"rollout/{name}.py").exists()]


def test_the_page_of_the_command_line_says_every_command_that_there_is() -> None:
    listed = set(re.findall(r"^[│\s]+([a-z]+)  ", run("rollout --help").stdout, re.MULTILINE))
    assert listed
    assert not [command for command in sorted(listed) if f"rollout {command}" not in PAGES["command_line.md"]]


def test_the_version_is_the_same_wherever_it_is_said() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version in run("rollout --version").stdout.split()


def test_every_task_of_just_makes_the_environment_that_it_needs() -> None:
    text = (ROOT / "justfile").read_text(encoding="utf-8")
    tasks = re.findall(r"^(\w+)([^:\n]*):([^\n]*)\n((?:[ \t]+[^\n]*\n)+)", text, re.MULTILINE)
    needing = {name: needed.split() for name, _, needed, body in tasks if ".venv/bin/" in body and name != "setup"}
    assert len(needing) > 5
    assert all(needed == ["_venv"] for needed in needing.values()), needing
