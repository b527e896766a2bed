"""One cache of Debian packages for all labs: apt-cacher-ng at the outer end of their links."""

from __future__ import annotations

import pwd
import shutil
import socket
import time
from pathlib import Path

from tests.lab_machine import process
from tests.lab_machine.command import LabError, call
from tests.lab_machine.links import CACHE_PORT
from tests.lab_machine.model import CACHE, OUTER

USER = "apt-cacher-ng"
RECORD = OUTER / "run" / "apt-cacher-ng"


def config(cache: Path, logs: Path, beyond: str) -> str:
    """The configuration of apt-cacher-ng: it names no mirror and caches every requested file."""
    return (
        f"CacheDir: {cache}\nLogDir: {logs}\nSupportDir: /usr/lib/apt-cacher-ng\n"
        f"Port: {CACHE_PORT}\nBindAddress: 0.0.0.0\nForeGround: 1\nSocketPath: {logs}/socket\n"
        # A lab lives for an hour: cached files stay valid, and no nightly job expires them.
        "ExThreshold: 30\nReuseConnections: 1\nVerboseLog: 1\nReportPage:\n"
        # The cache uses the same proxy as this machine's own apt.
        + (f"Proxy: {beyond}\n" if beyond else "")
    )


def ensure() -> None:
    """Ensure that the cache runs; every lab reaches it at port 3142 of its link's outer end."""
    if process.alive(process.recorded(RECORD)):
        return
    if _answers():
        raise LabError(
            f"port {CACHE_PORT} is taken by another program; stop it for the lab's cache"
        )
    folder = OUTER / "apt-cacher-ng"
    logs, cache = folder / "log", CACHE / "apt"
    for path in (folder / "conf", logs, cache):
        path.mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "acng.conf").write_text(config(cache, logs, _proxy_beyond()))
    owner = pwd.getpwnam(USER)
    for path in (logs, cache):
        shutil.chown(path, owner.pw_uid, owner.pw_gid)
    argv = ["apt-cacher-ng", "-c", str(folder / "conf")]
    drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    process.spawn(RECORD, [*drop, *argv], running=argv, log=folder / "output.log")
    deadline = time.monotonic() + 10
    while not _answers():
        if time.monotonic() > deadline:
            raise LabError(f"the package cache does not answer; see {folder}/output.log")
        time.sleep(0.05)


def stop() -> None:
    """End the cache."""
    process.end(RECORD)


def _proxy_beyond() -> str:
    known = call(["apt-config", "dump", "--format", "%v", "Acquire::http::Proxy"]).stdout.strip()
    return known if known.startswith("http://") else ""


def _answers() -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", CACHE_PORT)) == 0
