# `just` lists these. setup comes first; CI runs .ci/run.

_list:
    @just --list

# Make .venv with everything that development needs
setup:
    python3 -m venv .venv
    .venv/bin/pip install -q -e '.[dev]'

# All tests, or those named: just test tests/core -k rollback
test *args:
    .venv/bin/pytest -q -n auto {{args}}

# Lint, format, types
lint:
    .venv/bin/ruff check
    .venv/bin/ruff format --check
    .venv/bin/mypy

# The property tests on many times the examples, from a new seed
fuzz times="50" *args:
    ROLLOUT_FUZZ={{times}} .venv/bin/pytest -q -n auto {{args}}

# Every figure, as a ratio against orjson on the same file
bench *args:
    .venv/bin/python -m bench {{args}}
