"""A cluster for Kubeflow's operators."""

CLUSTER = """
all:
  vars:
    tfprov:
      cluster: tf
      image: {name: "img:v1"}
      command: [python, x.py]
      wiring: tf_config
  children:
    ps: {hosts: {p: }}
    chief: {hosts: {c: }}
    worker: {hosts: {"w[0:1]": }}
    evaluator: {hosts: {c: }}
    tensorboard: {hosts: {c: }}
"""


BY_FLAGS = (
    CLUSTER.replace("wiring: tf_config", "wiring: flags")
    .replace("    chief: {hosts: {c: }}\n", "")
    .replace("{c: }", "{w0: }")
)
