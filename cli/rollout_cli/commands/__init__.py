"""The commands, by what they are for. Each imports what it needs when it runs, and returns its exit code.

Annotations are not postponed here: typer would compile those of a command, as texts, several times.
"""

from types import ModuleType

COMMANDS = {  # in the order of --help: what each is listed under
    **dict.fromkeys(
        ("reconstruct", "history", "turns", "explain", "verify", "repair", "replay", "show", "export", "diff", "tail"),
        "Read a session",
    ),
    **dict.fromkeys(("ls", "tree", "search", "index", "stats"), "Find sessions"),
    **dict.fromkeys(("name", "archive", "unarchive", "rm", "seal", "unseal"), "Keep them"),
    **dict.fromkeys(("encrypt", "rekey", "decrypt", "du", "doctor"), "Keep them"),
    **dict.fromkeys(("sessions", "read", "mcp", "serve"), "For agents"),
    "completion": "For the shell",
}


def module_of(name: str) -> ModuleType:
    """The module that has the function of a command; the others are not imported."""
    if name == "replay":
        from rollout_cli.commands import replaying

        return replaying
    if name == "export":
        from rollout_cli.commands import exporting

        return exporting
    if name == "completion":
        from rollout_cli import completion

        return completion
    if COMMANDS[name] == "Read a session":
        from rollout_cli.commands import reading

        return reading
    if COMMANDS[name] == "Find sessions":
        from rollout_cli.commands import finding

        return finding
    if COMMANDS[name] == "Keep them":
        from rollout_cli.commands import keeping

        return keeping
    from rollout_cli.commands import agents

    return agents
