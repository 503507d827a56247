"""The commands, by what they are for. Each imports what it needs when it runs, and returns its exit code.

Annotations are not postponed here: typer would compile those of a command, as texts, several times.
"""

COMMANDS = {  # in the order of --help: the module in `commands` that has the function, and what it is listed under
    **dict.fromkeys(("reconstruct", "history", "turns", "explain", "verify", "repair"), ("reading", "Read a session")),
    "replay": ("replaying", "Read a session"),
    "show": ("showing", "Read a session"),
    "export": ("exporting", "Read a session"),
    "diff": ("comparing", "Read a session"),
    "tail": ("tailing", "Read a session"),
    **dict.fromkeys(("ls", "tree", "search"), ("finding", "Find sessions")),
    "index": ("indexing", "Find sessions"),
    "stats": ("showing", "Find sessions"),
    **dict.fromkeys(("name", "archive", "unarchive", "rm"), ("keeping", "Keep them")),
    **dict.fromkeys(("seal", "unseal"), ("sealing", "Keep them")),
    **dict.fromkeys(("encrypt", "rekey", "decrypt"), ("encrypting", "Keep them")),
    "du": ("room", "Keep them"),
    "doctor": ("health", "Keep them"),
    **dict.fromkeys(("sessions", "read", "mcp"), ("context", "For agents")),
    "serve": ("serving", "For agents"),
    "completion": ("shell", "For the shell"),
}
