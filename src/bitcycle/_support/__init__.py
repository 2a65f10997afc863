"""Helpers that every layer may use: optional dependencies, text tables, hints for misspelt names."""
