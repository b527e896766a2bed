"""Ollama's registry: Debian's own docker-registry, filled with the made-up models by its API."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from tests.mock_upstreams import MockUpstreamsError, models
from tests.mock_upstreams.models import Layer
from tests.mock_upstreams.ollama_archive import run_step
from tests.ports import kept_port

PROGRAM = "docker-registry"
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
READY_S = 15.0
STOP_S = 5.0
PUSH_S = 120.0


def storage_path(cache: Path) -> Path:
    """Return the folder of the filled registry for these recipes."""
    return cache / "registry" / models.recipe_digest()


def blob_path(storage: Path, digest: str) -> Path:
    """Return the file of a blob (`sha256:…`), which lies where the real blob host keeps it too."""
    name = digest.removeprefix("sha256:")
    return storage / "docker/registry/v2/blobs/sha256" / name[:2] / name / "data"


def fill(cache: Path, tell: Callable[[str], None] = lambda _: None) -> Path:
    """Return the filled storage; it is built beside its final place and moved when complete."""
    target = storage_path(cache)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        storage = Path(scratch) / "storage"
        with running(program(cache), storage) as address:
            for name in models.MODELS:
                started = time.monotonic()
                folder = Path(scratch) / "model"
                folder.mkdir()
                size = push(address, name, models.write_layers(name, folder))
                shutil.rmtree(folder)
                tell(f"{name}: {size / 1e6:.1f} MB in {time.monotonic() - started:.1f} s")
        storage.rename(target)
    return target


def program(cache: Path) -> Path:
    """Return docker-registry: the machine's own, or one unpacked into the cache.

    Installing the package would start a service of its own on every address of this machine.
    """
    installed = shutil.which(PROGRAM)
    unpacked = cache / PROGRAM / "usr/bin" / PROGRAM
    if installed is not None:
        return Path(installed)
    if not unpacked.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            # apt's own user cannot enter the scratch folder: download as the current user.
            fetch = ["apt-get", "-o", "APT::Sandbox::User=root", "download", PROGRAM]
            run_step(fetch, dict(os.environ), Path(scratch))
            (package,) = Path(scratch).glob("*.deb")
            complete = Path(scratch) / "complete"
            run_step(["dpkg-deb", "--extract", str(package), str(complete)], dict(os.environ))
            # A killed run leaves no partial copy under the final name.
            complete.rename(cache / PROGRAM)
    return unpacked


@contextmanager
def running(executable: Path, storage: Path) -> Iterator[str]:
    """Run docker-registry on a free loopback port; it ends with the block or with this process."""
    # Its configuration and its log are in memory, so that a killed process leaves no files.
    with (
        kept_port() as port,
        open(os.memfd_create("registry.json"), "w+b") as settings,
        open(os.memfd_create("registry.log"), "w+b") as log,
    ):
        settings.write(json.dumps(_settings(storage, port)).encode())
        settings.flush()
        process = subprocess.Popen(
            # If this process is killed, the registry must end as well.
            ["setpriv", "--pdeathsig", "TERM", executable, "serve", f"/dev/fd/{settings.fileno()}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(settings.fileno(),),
            env={"PATH": os.environ.get("PATH", "/usr/bin"), "OTEL_TRACES_EXPORTER": "none"},
            start_new_session=True,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_ready(address, process, log)
            yield address
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process with TERM first, then with KILL."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def push(address: str, name: str, layers: list[Layer]) -> int:
    """Push one model, whose last layer is the configuration; return the bytes of all layers."""
    repository, tag = name.split(":")
    base = f"{address}/v2/library/{repository}"
    with httpx.Client(timeout=PUSH_S) as client:
        entries = [_push_blob(client, base, layer) for layer in layers]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": entries[-1],
            "layers": entries[:-1],
        }
        answer = client.put(
            f"{base}/manifests/{tag}",
            content=json.dumps(manifest),
            headers={"Content-Type": MANIFEST_TYPE},
        )
    _demand(answer, 201, f"the manifest of {name}")
    return sum(int(entry["size"]) for entry in entries)


def _push_blob(client: httpx.Client, base: str, layer: Layer) -> dict[str, Any]:
    """Push one blob in one piece and return its entry in the manifest."""
    with layer.path.open("rb") as content:
        digest = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
        size = content.tell()
        content.seek(0)
        begun = client.post(f"{base}/blobs/uploads/")
        _demand(begun, 202, f"an upload of {layer.path.name}")
        place = httpx.URL(begun.headers["Location"]).copy_merge_params({"digest": digest})
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        answer = client.put(place, content=content, headers=headers)
    _demand(answer, 201, layer.path.name)
    return {"mediaType": layer.media_type, "digest": digest, "size": size}


def _demand(answer: httpx.Response, status: int, what: str) -> None:
    """Raise when the registry did not accept the request."""
    if answer.status_code != status:
        reason = answer.text.strip()[:200]
        raise MockUpstreamsError(f"{PROGRAM} rejected {what}: {answer.status_code} {reason}")


def _settings(storage: Path, port: int) -> dict[str, object]:
    """Return the registry's configuration: loopback, no login, files."""
    return {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(storage)}},
        "http": {"addr": f"127.0.0.1:{port}", "secret": "not secret: one process, loopback"},
    }


def _wait_ready(address: str, process: subprocess.Popen[bytes], log: BinaryIO) -> None:
    """Return when the registry is ready; raise with its last output if it ended or is too slow."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"{address}/v2/", timeout=1.0).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.05)
    log.seek(0)
    last = log.read().decode(errors="replace").strip().splitlines()[-1:]
    raise MockUpstreamsError(f"{PROGRAM} does not answer on {address}: {' '.join(last)}")
