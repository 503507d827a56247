"""One session: reading and following it, its turns, writing and forking it."""
