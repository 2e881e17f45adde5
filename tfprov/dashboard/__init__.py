"""The page of `tfprov dashboard`: clusters, runs, curves and logs of this controller, read-only."""
