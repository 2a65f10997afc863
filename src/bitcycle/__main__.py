"""``python -m bitcycle`` is the command line."""

from bitcycle.cli import main

if __name__ == "__main__":  # the workers of a study import this file too
    main()
