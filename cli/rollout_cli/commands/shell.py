"""What a shell is given: the function that completes a command line."""

import enum
import os
from pathlib import Path
from typing import Annotated

import typer

from rollout_cli.failures import FINE
from rollout_cli.terminal import Output, Wrapped

Shell = enum.StrEnum("Shell", "bash zsh fish")
"""The shells that there is a completion for."""


def completion(
    shell: Annotated[Shell | None, typer.Argument(help="Else the one in $SHELL.", show_default=False)] = None,
) -> int:
    """Print what makes a shell complete commands, options and ids.

    In ~/.bashrc: eval "$(rollout completion bash)". For zsh the same in ~/.zshrc, below compinit. For fish:
    rollout completion fish > ~/.config/fish/completions/rollout.fish
    """
    from rollout_cli.completion import SHELLS, script

    name = Path(os.environ.get("SHELL", "")).name if shell is None else shell.value
    if name not in SHELLS:
        from rollout.errors import UsageError

        raise UsageError("it is not clear which shell is meant", remedy="give bash, zsh or fish")
    Output().print(Wrapped((line,)) for line in script(name).splitlines())
    return FINE
