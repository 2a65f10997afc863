"""The models of the paper's tasks."""
