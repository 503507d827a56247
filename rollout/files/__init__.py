"""Where bytes lie: the port and the disk behind it, writers, recovery, the files of a session and their layout."""
