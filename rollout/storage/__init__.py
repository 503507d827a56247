"""The shell: the only place that touches files.

`fs` is the port, `source` reads through it, `writer` appends, `recovery` mends a tail, `sealed` packs.
"""
