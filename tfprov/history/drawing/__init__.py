"""Curves of runs: in a terminal, as SVG, and as a page of their own."""
