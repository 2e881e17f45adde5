"""Settings that all unit tests share."""

from hypothesis import HealthCheck, settings

# The same examples on every machine, and no verdict on how fast it is.
settings.register_profile("tfprov", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tfprov")
