"""Figures, drawn by matplotlib (extra ``study``)."""
