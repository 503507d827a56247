"""The program starts quickly: it imports what a command needs when it needs it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import rollout_cli

from tests.builders import log, session_meta, user
from tests.cli import REPOSITORY, environment, run, write

NEEDLESS_FOR_STATS = set(
    """
    rollout.home.doctor rollout.items.texts rollout.home.listing rollout.home.index.scan
    rollout.home.query rollout.home.search rollout.agent_tools rollout.home.index.fulltext
    rollout.home.tree rollout.fold.line_status rollout.fold.collector rollout.items.history
    rollout.fold.engine rollout.session.transcript rollout.dialects.codex.encoder rollout.home.lifecycle
    rollout.session.label_scope rollout.session.log rollout.session.recorder rollout.session.state
    rollout.files.encrypted.reader rollout.files.encrypted.lines rollout.files.fork rollout.files.source
    rollout.files.recovery rollout.files.sealed.reader rollout.files.lineage rollout.files.writer rollout.session.turn
    rollout.home.maintenance asyncio cryptography email hashlib pydantic random rich socket tempfile
    """.split()
)
"""What they do not import as long as the index knows all files: whatever reads or writes a log, and what that takes."""


def imported(program: str) -> set[str]:
    """The top-level packages and our modules that are there after the program."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nsys.stderr.write(' '.join(sys.modules))"],
        capture_output=True, env=environment(), timeout=60, check=True,
    )  # fmt: skip
    return set(done.stderr.decode().split())


def running(*args: str | Path) -> str:
    return f"from rollout_cli.app import run; assert run({list(map(str, args))!r}) == 0"


@pytest.mark.parametrize("program", ["import rollout_cli.app", running("--version")], ids=["import", "version"])
def test_the_version_needs_neither_rich_nor_the_engine(program: str) -> None:
    modules = imported(program)
    assert {"rich", "orjson", "msgspec", "zstandard", "sqlite3", "importlib.metadata"}.isdisjoint(modules)
    assert not [module for module in modules if module.startswith(("rollout.", "rollout_cli.commands."))]


PACE = """
import gc, sys
from rollout_cli.app import main
sys.argv[1:] = ["--version"]
try:
    main()
except SystemExit:
    assert gc.get_threshold()[0] > 10_000
    assert gc.get_freeze_count()
"""


def test_the_pace_of_garbage_collection_is_set_before_there_is_much_to_import() -> None:
    assert {"typer", "inspect", "dataclasses"}.isdisjoint(imported("import rollout_cli.app"))
    assert "typer" in imported(PACE)


def test_a_command_into_a_pipe_does_not_import_rich(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), user("q")))
    for program in (running("history", path), running("verify", path, "--json"), running("ls", "--home", tmp_path)):
        modules = imported(program)
        assert {"rich", "pydantic"}.isdisjoint(modules)
        assert len([module for module in modules if module.startswith("rollout_cli.commands.")]) == 1


def test_stats_from_a_warm_index_import_nothing_that_reads_or_writes_a_log(tmp_path: Path) -> None:
    folder = tmp_path / "sessions/2026/03/20"
    folder.mkdir(parents=True)
    path = folder / "rollout-2026-03-20T10-00-00-019d0000-0000-7000-8000-000000000001.jsonl"
    path.write_bytes(log(session_meta(), user("q")))
    os.utime(path, (1e9, 1e9))  # long enough ago for the index to be sure of it
    assert run("stats", "--home", tmp_path, "--json").json["sessions"] == 1
    modules = imported(running("stats", "--home", tmp_path))
    assert "rollout.home.index.index" in modules
    assert not sorted(NEEDLESS_FOR_STATS & modules)


def test_the_first_screen_of_a_replay_waits_for_no_more_than_it_shows() -> None:
    modules = imported("import rollout, rollout_cli.replay.screen; rollout.replay")
    assert {"rich.console", "pydantic", "sqlite3", "asyncio", "rollout.store"}.isdisjoint(modules)
    assert not [
        module for module in modules if module.startswith(("rollout.home.maintenance.", "rollout.home.index.index"))
    ]


def test_what_is_given_is_converted_and_checked_as_ever(tmp_path: Path) -> None:
    path = write(tmp_path, log(session_meta(), user("q"), user("r")))
    assert len(run("history", path, "-n", "1", "--json").json) == 1
    for args in (["history", path, "-n", "many"], ["history", path, "-n", "-2"], ["history"], ["ls", "--limit", "0"]):
        assert run(*args).code == 2


def test_the_completion_of_a_command_does_not_need_the_engine() -> None:
    program = f"import os; os.environ['_ROLLOUT_COMPLETE'] = 'complete_bash'; {running('vac')}"
    for modules in (imported(program), imported(running("completion", "bash"))):
        assert {"rich", "sqlite3"}.isdisjoint(modules)
        assert not [module for module in modules if module.startswith("rollout.")]


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["version"] == rollout_cli.__version__
    assert run("--version").out == f"rollout {rollout_cli.__version__}\n"
