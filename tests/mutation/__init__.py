"""The parts of tests/mutants.py: the mutants, which tests run which line, and the processes that run them."""
