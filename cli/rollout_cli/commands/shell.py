"""What a shell is given: the function that completes a command line."""

import enum
import os
from pathlib import Path
from typing import Annotated

import typer

from rollout_cli.failures import FINE
from rollout_cli.terminal import Output, Wrapped


class Shell(enum.StrEnum):
    """The shells that there is a completion for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell | None, typer.Argument(help="Else the one in $SHELL.", show_default=False)] = None,
) -> int:
    """Print what makes a shell complete commands, options and ids.

    In ~/.bashrc: eval "$(rollout completion bash)". For zsh the same in ~/.zshrc, below compinit. For fish:
    rollout completion fish > ~/.config/fish/completions/rollout.fish
    """
    from rollout_cli.completion import SCRIPTS

    name = Path(os.environ.get("SHELL", "")).name if shell is None else shell.value
    if name not in SCRIPTS:
        from rollout.errors import UsageError

        raise UsageError("it is not clear which shell is meant", remedy="give bash, zsh or fish")
    out = Output()
    out.print(Wrapped((line,)) for line in SCRIPTS[name].splitlines())
    return FINE
