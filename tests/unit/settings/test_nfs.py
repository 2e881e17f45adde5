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
    with pytest.raises(InvalidInput) as caught:
        files_of(INVENTORY.replace("MOUNT", NFS), target)
    assert str(caught.value) == (
        "inventory.yml:8:16: error: `mounts[0].nfs` works on tfprov's own hosts and on Kubernetes, "
        f"and not in {target}; mount it on every machine, and use `source`"
    )


WRONG = {
    "{target: /mnist}": (
        "16: error: `mounts[0]` needs one of source, nfs; for example `{source: /data/mnist, target: /data}`"
    ),
    NFS.replace("target", "source: /mnist, target"): "16: error: `mounts[0]` has both source and nfs; keep one",
    "{nfs: {server: 10.0.0.9}, target: /mnist}": (
        "17: error: `mounts[0].nfs.path` is missing under `tfprov:`; for example `path: /export/mnist`"
    ),
    "{nfs: {server: 10.0.0.9, path: export}, target: /mnist}": (
        "41: error: `mounts[0].nfs.path` must be an absolute path, not `export`; for example `path: /export/mnist`"
    ),
    "{nfs: {server: 10.0.0.9, path: /e, options: 'a b; rm'}, target: /mnist}": (
        "51: error: `mounts[0].nfs.options` must be mount options with commas between them, not `a b; rm`; "
        "for example `options: nfsvers=4.2,soft,timeo=100`"
    ),
    "{nfs: {server: 'a,b', path: /e}, target: /mnist}": (
        "23: error: `mounts[0].nfs.server` must be a host name or an IPv4 address, not `a,b`; "
        "for example `server: 10.0.0.9`"
    ),
}


@pytest.mark.parametrize(("mount", "message"), WRONG.items(), ids=WRONG)
def test_wrong_settings_are_refused(mount: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        roles_of(INVENTORY.replace("MOUNT", mount))
    assert str(caught.value) == f"inventory.yml:8:{message}"
