"""The paper's experiments: data, models, metrics, tasks, and the training loop that all tasks share."""
