"""Bytes to lines to records and back, with offsets. Nothing here knows what a record means."""
