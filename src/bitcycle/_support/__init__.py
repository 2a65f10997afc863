"""What every layer may use: optional dependencies, tables of text, hints for misspelt names."""
