"""The shell: the only place that touches files.

`port` is what it asks of a disk and `fs` the real one, `source` reads through it, `writer` appends, `recovery` mends a
tail, `sealed` reads packed files, which `sealing` makes.
"""
