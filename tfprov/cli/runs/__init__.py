"""The verb `runs`: the history of runs on this controller."""
