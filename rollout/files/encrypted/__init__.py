"""Encrypted rollouts: keys, the lines, reading and numbering them."""
