"""Studies: plan -> run -> store -> statistics -> report."""
