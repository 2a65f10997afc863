"""The command line. Each command is a thin call of a public function, in a file of its own."""

from bitcycle.cli.app import main

__all__ = ["main"]
