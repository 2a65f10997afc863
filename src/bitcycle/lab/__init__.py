"""The laboratory: tasks, runs, studies of many runs, their statistics, reports and advice."""
