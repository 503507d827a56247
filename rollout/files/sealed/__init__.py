"""Sealed rollouts, packed with zstd: reading and making them."""
