"""Data for the tasks: embedded defaults that need no download, and readers of the official formats."""
