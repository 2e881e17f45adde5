"""Pure functions from settings to a plan: no host involved."""
