"""What executes the runs of a study: worker processes on one machine, or a Ray cluster."""
