"""Data sets: the embedded ones, the readers of official formats, and the catalogue of official data."""
