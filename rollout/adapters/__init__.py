"""Other people's interfaces, each behind an extra of its name. Nothing of the library imports them."""
