"""What every command says of itself, and that everything that goes wrong comes with what to try."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rollout_cli.commands import COMMANDS
from rollout_cli.failures import explain_error, explain_failure
from rollout_cli.program import make_app

import rollout
from rollout import errors
from tests.builders import log, session_meta, user
from tests.cli import run, write

commands: dict[str, Any] = vars(typer.main.get_command(make_app()))["commands"]
every_command = pytest.mark.parametrize("name", COMMANDS)
KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.RolloutError)]


def required(name: str) -> int:
    return sum(param.required for param in commands[name].params)


@every_command
def test_a_command_gives_an_example_of_itself_that_it_understands(name: str) -> None:
    command = commands[name]
    examples = re.findall(rf"\brollout ({name}\b[^|>&\")\n]*(?:\"[^\"]*\"[^|>&\")\n]*)?)", command.help)
    assert examples
    for each in examples:
        assert command.make_context(name, shlex.split(each)[1:])


@every_command
def test_the_help_of_a_command_names_each_option_whole_in_a_narrow_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = run(name, "--help").out
    options = {each for param in commands[name].params for each in param.opts if param.param_type_name == "option"}
    assert {each for each in options if each not in shown} == set()


@every_command
def test_what_a_command_does_not_know_is_one_line_that_names_its_help(name: str) -> None:
    for args in (["--nonsense"], ["x", "--home"], ["--nonsense=1", "-1"]):
        ran = run(name, *args)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert ran.err.endswith(f"; see rollout {name} --help\n")


@pytest.mark.parametrize("name", [name for name in COMMANDS if required(name) and name != "search"])
def test_a_command_that_needs_a_session_says_what_to_give_for_one_that_is_not_there(name: str, tmp_path: Path) -> None:
    ran = run(name, *["nothing"] * required(name), "--home", tmp_path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2 if name == "name" else 3, "", 1)
    assert re.fullmatch(r"rollout: .+; .{9,}\n", ran.err)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_without_a_remedy_gets_that_of_its_kind(kind: type[errors.RolloutError]) -> None:
    error = kind("it is so", path="f.jsonl")
    assert re.fullmatch(r"f\.jsonl: it is so; .{9,}", explain_error(error))
    assert explain_failure(error)[0] == explain_error(error)
    assert explain_error(kind("it is so", remedy="do this")) == "it is so; do this"


def test_one_of_several_sessions_that_cannot_be_packed_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise errors.WriteError("the disk is full", path=path)

    path = write(tmp_path, log(session_meta(), user("q")))
    for name in ("seal", "unseal", "archive"):
        monkeypatch.setattr(rollout.Store, name, fail)
        ran = run(name, path, "--home", tmp_path)
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith(f"rollout: {path}: the disk is full; check that there is room")
