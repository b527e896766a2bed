"""A house with Kokoro, in an Incus that copies."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hearth.machine import engine, instances
from hearth.machine.images import IMAGE_KEY
from hearth.machine.instances import OWNER_KEY
from hearth.sandbox import lifecycle
from tests.unit.sandbox.fake_incus import Incus

SECRET = b"the-secret-of-the-vault"
DIGESTS = b'{"household": "0123", "team": "4567"}'
PLENTY = 64 << 30
UNIT = b"""[Service]
ReadWritePaths=/var/lib/kokoro /var/cache/kokoro
ReadWritePaths="-/srv/my words"
"""


@pytest.fixture
def incus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Incus:
    fake = Incus()
    fake.add(
        "kokoro",
        config={
            OWNER_KEY: "1",
            IMAGE_KEY: "hearth-debian-13-0123456789ab",
            "boot.autostart": "true",
            "boot.autorestart": "true",
            "limits.memory": "2GiB",
            "security.nesting": "true",
            "nvidia.runtime": "true",
        },
        devices={
            "root": {"type": "disk", "path": "/", "pool": "hearth"},
            "eth0": {"type": "nic", "nictype": "routed", "ipv4.address": "10.140.30.18"},
            "gpu": {"type": "gpu", "gputype": "physical"},
            "render0": {"type": "unix-char", "source": "/dev/dri/renderD128"},
            "data0": {"type": "disk", "path": "/var/lib/kokoro", "source": "kokoro-data"},
            "data1": {"type": "disk", "path": "/srv", "source": "/srv/models"},
            "program-kokoro": {
                "type": "disk",
                "path": "/opt/hearth/kokoro",
                "source": "/var/lib/hearth/programs/kokoro",
                "readonly": "true",
            },
        },
        files={
            "/etc/hearth/credentials/kokoro/key": SECRET,
            "/etc/hearth/credentials/kokoro/digests": DIGESTS,
            "/etc/hearth/kokoro.json": b"{}",
            "/etc/systemd/system/kokoro.service": UNIT,
            "/var/log/journal/0123/system.journal": b"what people said",
            "/var/cache/kokoro/audio/speech/0/1/2/3/4/word.json": b"what people said",
            "/var/tmp/recording": b"what people said",
            "/tmp/systemd-private-kokoro/x": b"what people said",
            "/srv/my words/a.txt": b"what people said",
            "/var/lib/hidden/a.txt": b"what nobody said",
        },
    )
    fake.volume("kokoro-data")
    monkeypatch.setattr(lifecycle, "connect", lambda: fake)
    monkeypatch.setattr(lifecycle, "ROOTS", tmp_path)
    monkeypatch.setattr(lifecycle, "available_bytes", lambda: PLENTY)
    monkeypatch.setattr(os, "statvfs", lambda path: statvfs(PLENTY))
    monkeypatch.setattr(engine, "run_inside", fake.execute)
    monkeypatch.setattr(instances, "wait_ready", lambda client, found: None)
    return fake


def statvfs(free: int) -> Any:
    return SimpleNamespace(f_bavail=free // 4096, f_frsize=4096)
