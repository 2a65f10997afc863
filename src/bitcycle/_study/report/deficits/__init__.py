"""Deficit experiments in a report: their section of the page, their figures, and their part of the summary."""
