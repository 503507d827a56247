"""What tests share without asking: how the property tests run, an empty home, and interrupts that arrive.

Property tests are repeatable, without deadlines, longer on request.

Who runs the tests may ignore interrupts (`nohup`, a job in the background of a script): Python does so too then, and
every process that it starts. Here they are as in a program that somebody has started by hand.

Every run has one seed: `--hypothesis-seed=N` repeats the run. The header names it, and the end of a failed run too;
a failing test prints the blob that repeats it alone. Under CI the seed is fixed: a red run stays red until mended.
ROLLOUT_FUZZ=50 gives each property test 50 times its examples.
"""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rollout import Store
from tests.sessions import a_store

FUZZ = int(os.environ.get("ROLLOUT_FUZZ", "1"))
OWN_SETTINGS = "_hypothesis_internal_use_settings"  # where hypothesis keeps what @settings said

settings.register_profile(
    "rollout",
    settings.get_profile("default"),
    deadline=None,
    print_blob=True,
    database=None,  # a fixed seed leaves it unused
    suppress_health_check=[HealthCheck.too_slow],  # two cores shared with others are slow at times
)
settings.load_profile("rollout")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of each process that runs tests, before it starts any other
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """That of an empty home, with a clock of its own."""
    return a_store(tmp_path / "home")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = 0 if "CI" in os.environ and FUZZ == 1 else secrets.randbits(32)


def pytest_report_header(config: pytest.Config) -> str:
    return f"hypothesis: --hypothesis-seed={config.option.hypothesis_seed}, ROLLOUT_FUZZ={FUZZ}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if exitstatus:  # again, as -q leaves the header out
        terminalreporter.write_line(pytest_report_header(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Multiply the examples of every property test and state machine (several items can share the class of one)."""
    if FUZZ == 1:
        return
    machines = set()
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        function = getattr(item.obj, "__func__", item.obj)
        if isinstance(getattr(item.cls, "settings", None), settings):
            machines.add(item.cls)
        elif getattr(function, "is_hypothesis_test", False):
            setattr(function, OWN_SETTINGS, times(FUZZ, getattr(function, OWN_SETTINGS)))
    for machine in machines:
        machine.settings = times(FUZZ, machine.settings)


def times(factor: int, base: settings) -> settings:
    return settings(base, max_examples=base.max_examples * factor)
