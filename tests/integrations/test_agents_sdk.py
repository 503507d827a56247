"""The SDK's own tests of its sessions, of compaction, branches and usage, run with ours in the place of SQLite's.

They are of the installed version. ROLLOUT_OFFLINE=1 leaves them out, as they have to be fetched; ROLLOUT_SDK=oldest
(`just sdk`) runs those of the oldest version that is supported as well, in an environment of its own. Which of them
are left out, and why, is in `sdk_tests`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
import venv
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.integrations.sdk_tests import LEFT_OUT, PLUGIN, SETTINGS, SUITES

ROOT = Path(__file__).parents[2]
OLDEST = "0.20.0"
VERSIONS = ["installed", *(["oldest"] if os.environ.get("ROLLOUT_SDK") == "oldest" else [])]
ALSO_NEEDED = "pytest>=9 pytest-asyncio>=1.1 inline-snapshot aiosqlite cryptography msgspec orjson zstandard".split()
FETCH_TIMEOUT_S, TESTS_TIMEOUT_S = 900, 240
"""One test that hangs ends the run after a minute (`sdk_tests.SETTINGS`)."""


def call(
    *command: object, folder: Path, timeout_s: float = FETCH_TIMEOUT_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout_s, check=False
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
            safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # 3.11.4 and newer have it
            packed.extractall(folder, **safely)
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


def run_tests(python: Path, source: Path, folder: Path) -> tuple[Counter[str], str]:
    """How many passed of each file, and what the run said; it fails if any of them does."""
    (folder / "tests").symlink_to(source / "tests")
    (folder / "our_session.py").write_text(PLUGIN)
    (folder / "pytest.ini").write_text(SETTINGS)
    left_out = [name for file in LEFT_OUT for names in LEFT_OUT[file].values() for name in names]
    plugins = ("-p", "our_session", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = call(
        *(python, "-m", "pytest", "-q", *plugins, "--junitxml=report.xml"),
        *(file for file in SUITES if (source / file).exists()),
        folder=folder,
        timeout_s=TESTS_TIMEOUT_S,
        PYTHONPATH=os.pathsep.join([str(folder), str(ROOT)]),
        LEFT_OUT=json.dumps(left_out),
    )
    said = done.stdout[-5000:] + done.stderr[-5000:]
    assert done.returncode == 0, said
    passed: Counter[str] = Counter()
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        module = case.get("classname", "").partition(".Test")[0]
        passed[module.replace(".", "/") + ".py"] += len(case) == 0
    return passed, said


@pytest.mark.skipif("ROLLOUT_OFFLINE" in os.environ, reason="ROLLOUT_OFFLINE: the SDK's tests would have to be fetched")
@pytest.mark.parametrize("which", VERSIONS)
def test_the_tests_of_the_sdk_pass_with_our_session_in_their_place(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    version = OLDEST if which == "oldest" else importlib.metadata.version("openai-agents")
    cache = request.config.cache.mkdir(f"sdk-{version}")
    python = make_environment(version, cache / "venv") if which == "oldest" else Path(sys.executable)
    source = fetch(version, cache)
    passed, said = run_tests(python, source, tmp_path)
    least = {file: count for file, count in SUITES.items() if (source / file).exists()}
    assert not {file: passed[file] for file, count in least.items() if passed[file] < count}, said
