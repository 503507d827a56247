"""The command line of rollout: reads the arguments, asks the library, shows the answer.

Importing this package imports nothing else, so that `rollout --version` costs what typer costs.
"""

__version__ = "0.1.0"
