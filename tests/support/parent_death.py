"""Programs that end with the process of the tests that started them, also when that is killed and no fixture ends them."""

WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
"""Before a command."""
