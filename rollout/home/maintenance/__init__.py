"""Files that are written anew: repaired, encrypted; what their bytes are for. Nothing is replaced unproven."""
