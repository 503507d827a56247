"""Files that are written anew: mended, thinned, encrypted; what their bytes are for. Nothing is replaced unproven."""
