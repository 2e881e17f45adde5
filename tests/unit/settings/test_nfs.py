"""NFS exports as mounts: volumes of the engine with their options, in what is rendered, and wrong settings."""

import pytest

from tests.support.kubernetes_objects import files_of, objects_of, of_kind, roles_of
from tfprov.errors import InvalidInput
from tfprov.model.state import Mount
from tfprov.settings.role_settings import setting_mounts

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: lab
      image: {name: "x:1"}
      command: [python, x.py]
      mounts: [MOUNT]
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
worker: {hosts: {h2: {ansible_host: 10.0.0.2}}}
"""
NFS = "{nfs: {server: 10.0.0.9, path: /export/mnist, options: 'nfsvers=4.2,soft'}, target: /mnist}"


def test_an_export_is_a_volume_with_the_options_of_mount() -> None:
    role = next(iter(roles_of(INVENTORY.replace("MOUNT", NFS))))
    options = (("type", "nfs"), ("o", "addr=10.0.0.9,ro,nfsvers=4.2,soft"), ("device", ":/export/mnist"))
    assert setting_mounts(role) == (Mount("", "/mnist", True, options),)
    written = NFS.replace("target:", "read_only: false, target:")
    role = next(iter(roles_of(INVENTORY.replace("MOUNT", written))))
    assert dict(setting_mounts(role)[0].volume_options)["o"] == "addr=10.0.0.9,rw,nfsvers=4.2,soft"


def test_kubernetes_mounts_it_by_itself() -> None:
    job = of_kind(objects_of(INVENTORY.replace("MOUNT", NFS), "kubernetes"), "Job")[0]
    volumes = {it["name"]: it for it in job["spec"]["template"]["spec"]["volumes"]}
    assert volumes["mount-0"]["nfs"] == {"server": "10.0.0.9", "path": "/export/mnist", "readOnly": True}


@pytest.mark.parametrize("target", ["compose", "swarm", "marathon"])
def test_other_targets_refuse_it(target: str) -> None:
    with pytest.raises(InvalidInput, match=r"`mounts\[0\]\.nfs` works on tfprov's own hosts and on Kubernetes"):
        files_of(INVENTORY.replace("MOUNT", NFS), target)


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (
            "{target: /mnist}",
            r"`mounts\[0\]` needs one of source, nfs; for example `{source: /data/mnist, target: /data}`",
        ),
        (NFS.replace("target", "source: /mnist, target"), r"`mounts\[0\]` has both source and nfs; keep one"),
        ("{nfs: {server: 10.0.0.9}, target: /mnist}", "path"),
        ("{nfs: {server: 10.0.0.9, path: export}, target: /mnist}", "absolute path"),
        ("{nfs: {server: 10.0.0.9, path: /e, options: 'a b; rm'}, target: /mnist}", "mount options"),
        ("{nfs: {server: 'a,b', path: /e}, target: /mnist}", "host name or an IPv4 address"),
    ],
)
def test_wrong_settings_are_refused(mount: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        roles_of(INVENTORY.replace("MOUNT", mount))
