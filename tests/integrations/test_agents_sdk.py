"""The SDK's own tests of its SQLite session, run with ours in its place.

They come with the SDK's source distribution, which pip fetches into pytest's cache: they are not part of this project.
ROLLOUT_OFFLINE=1 leaves them out; ROLLOUT_SDK=oldest (`just sdk`) runs those of the oldest version that is supported as
well, in an environment of its own.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST = "0.20.0"
FILES = ("tests/memory/test_session.py", "tests/memory/test_session_limit.py")
LEAST = 50
"""So many of them are about any session, in every version."""
ALSO_NEEDED = ("pytest>=9", "pytest-asyncio>=1.1", "inline-snapshot", "msgspec", "orjson", "zstandard")
INSIDE_SQLITE = {
    "closes or counts the connections of threads": (
        "test_sqlite_session_close_closes_worker_thread_connections",
        "test_sqlite_session_reaps_connections_from_exited_worker_threads",
        "test_sqlite_session_closes_retired_connections_before_the_next_allocation",
        "test_sqlite_session_keeps_connections_of_live_worker_threads",
        "test_sqlite_session_close_retries_quarantined_connection",
        "test_sqlite_session_rollback_failure_evicts_connection",
    ),
    "puts rows that are no JSON into the table": (
        "test_sqlite_session_pop_item_skips_corrupt_most_recent",
        "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows",
        "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows",
        "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows",
    ),
    "drops a table, or looks for SQLite's own lock": (
        "test_sqlite_session_failed_clear_session_rolls_back",
        "test_sqlite_session_failed_pop_item_releases_write_lock",
        "test_sqlite_session_failed_add_items_releases_write_lock",
        "test_sqlite_session_file_lock_is_shared_across_instances",
    ),
    "pauses in the commit of a connection; test_agents_session.py does so in ours": (
        "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome",
    ),
}
NOT_FOR_OURS = sorted(name for names in INSIDE_SQLITE.values() for name in names)
SHIM = """
from pathlib import Path
import agents, agents.memory, agents.memory.sqlite_session
from rollout.integrations.agents import RolloutSession

class SQLiteSession(RolloutSession):
    def __init__(self, session_id, db_path=":memory:", session_settings=None):
        path = None if str(db_path) == ":memory:" else Path(f"{db_path}.home")
        super().__init__(session_id, path, session_settings=session_settings)

for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = SQLiteSession
"""
SETTINGS = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = session\n"


def call(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False
    )


def fetch(version: str, folder: Path) -> Path:
    """The source distribution, unpacked once."""
    target = folder / f"openai_agents-{version}"
    if not target.is_dir():
        named = f"openai-agents=={version}"
        done = call(
            *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "openai-agents", named),
            *("-d", folder),
            folder=folder,
        )
        if done.returncode:
            pytest.fail(
                f"{named} cannot be fetched (ROLLOUT_OFFLINE=1 leaves its tests out): {done.stderr}", pytrace=False
            )
        with tarfile.open(folder / f"openai_agents-{version}.tar.gz") as packed:
            packed.extractall(folder, filter="data")
    return target


def make_environment(version: str, folder: Path) -> Path:
    """An interpreter with that version of the SDK."""
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True)
        done = call(python, "-m", "pip", "install", "-q", f"openai-agents=={version}", *ALSO_NEEDED, folder=folder)
        assert done.returncode == 0, done.stderr
        (folder / "made").touch()
    return python


@pytest.mark.skipif("ROLLOUT_OFFLINE" in os.environ, reason="ROLLOUT_OFFLINE: the SDK's tests would have to be fetched")
@pytest.mark.parametrize("which", ["installed", "oldest"])
def test_the_tests_of_the_sdk_pass_with_our_session_in_their_place(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if which == "oldest" and os.environ.get("ROLLOUT_SDK") != "oldest":
        pytest.skip("just sdk: it makes an environment of its own")
    version = OLDEST if which == "oldest" else importlib.metadata.version("openai-agents")
    cache = request.config.cache.mkdir(f"sdk-{version}")
    python = make_environment(version, cache / "venv") if which == "oldest" else Path(sys.executable)
    source = fetch(version, cache)
    (tmp_path / "tests").symlink_to(source / "tests")
    (tmp_path / "our_session.py").write_text(SHIM)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    left_out = " or ".join(NOT_FOR_OURS)
    done = call(
        *(python, "-m", "pytest", "-q", "-p", "our_session", "-p", "no:cacheprovider", "-p", "no:xdist", *FILES),
        *("-k", f"not ({left_out})"),
        folder=tmp_path,
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]),
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= LEAST, done.stdout
