# `just` lists these. Git and Python 3.11 or newer are enough: each makes .venv first, if it is not there. CI runs .ci/run.

_list:
    @just --list

# Make .venv with everything that development needs
setup:
    #!/bin/sh
    set -eu
    for python in python3 python3.14 python3.13 python3.12 python3.11 none; do
        [ "$python" = none ] || "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    done
    [ "$python" != none ] || { echo "Python 3.11 or newer is needed: install it, and call just setup again" >&2; exit 1; }
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        { echo "$python makes no environments: install its venv (on Debian the package python3-venv)" >&2; exit 1; }
    "$python" -m venv .venv
    .venv/bin/pip install -q -e '.[dev]'
    touch .venv/made

# Does the same where it has to be done
_venv:
    @[ .venv/made -nt pyproject.toml ] || just setup

# All tests, or those named: just test tests/core -k rollback
test *args: _venv
    .venv/bin/pytest -q -n auto {{args}}

# Lint, format, types
lint: _venv
    .venv/bin/ruff check
    .venv/bin/ruff format --check
    .venv/bin/mypy

# The property tests on many times the examples, from a new seed
fuzz times="50" *args: _venv
    ROLLOUT_FUZZ={{times}} .venv/bin/pytest -q -n auto {{args}}

# 2,000 processes killed in the middle of writing, instead of 200, and all states that a crash can leave, not a part
crash *args: _venv
    ROLLOUT_CRASH=1 .venv/bin/pytest -q {{args}} tests/test_kill.py tests/test_log_crashes.py

# Interrupts at all points of all operations, not at a few, and 20,000 real signals: takes half an hour
interrupts *args: _venv
    ROLLOUT_CRASH=1 .venv/bin/pytest -q -n auto {{args}} tests/test_interrupts.py tests/test_signals.py tests/integrations/test_agents_interrupts.py

# The SDK's own session tests against ours, also those of the oldest version that is supported
sdk *args: _venv
    ROLLOUT_SDK=oldest .venv/bin/pytest -q {{args}} tests/integrations/test_agents_sdk.py

# Each sync of each workload taken out or delayed: a crash must tell
mutants *args: _venv
    ROLLOUT_MUTANTS=1 .venv/bin/pytest -q -n auto -k needed {{args}} tests/test_log_crashes.py tests/test_repair_crashes.py tests/storage/test_crashes.py

# Every figure, as a ratio against the plainest way to do the same; just bench write: of writing alone
bench *args: _venv
    .venv/bin/python -m bench {{args}}

# What every view shows (fixtures/views) and the pictures of the README (docs), written anew: read what has changed
snapshots: _venv
    ROLLOUT_SNAPSHOTS=write .venv/bin/pytest -q tests/cli/test_snapshots.py
    .venv/bin/python docs/screenshot.py
