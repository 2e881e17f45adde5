"""tfprov: a YAML inventory in, a training TensorFlow cluster out; a checkpoint you can trust back.

This file stays empty of imports: `tfprov.runtime` and `tfprov.wiring` also run inside the task's container,
where none of the controller's dependencies are installed.
"""

__version__ = "0.1.0"
