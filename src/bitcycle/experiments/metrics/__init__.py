"""The metrics of tasks that are more than a line."""
