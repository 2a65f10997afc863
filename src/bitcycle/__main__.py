"""``python -m bitcycle`` is the command line."""

from bitcycle.cli import main

main()
