"""Conversion of a model: which layers become sites, which are skipped and why, and the way back to float."""
