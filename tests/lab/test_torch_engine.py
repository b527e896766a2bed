"""The speech server's engine for NVIDIA cards: on the processor, and on a card where one is.

For the processor PyTorch comes from Debian: PyPI's brings gigabytes of CUDA, which are installed
only on a machine with a card. Without one, the tests of a card are counted as not run.
"""

import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hearth.project import Project
from tests.mock_upstreams import kokoro
from tests.ports import kept_port

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).parents[2]
UV = str(Project(REPOSITORY).uv)
CACHE = Path("/var/cache/hearth-lab")
LOCK = REPOSITORY / "requirements/kokoro_gpu.txt"
SUITE = "trixie"
PYTHON = "3.13"
PACKAGES = "python3-torch,python3-numpy"
# Increased when the root changes for another reason than its packages and the lock.
RECIPE = 1
# Debian's torch replaces PyPI's, which brings these.
LEFT_OUT = ("torch==", "triton==", "nvidia-", "cuda-", "sympy==", "networkx==", "mpmath==")
# It loads in seconds; a busy machine needs longer.
_READY_S = 240
ENGINE = REPOSITORY / "tests/lab/torch_engine.py"
CARD = REPOSITORY / "tests/lab/torch_card.py"
TTFA_MS, CHARACTERS_PER_S = 60, 5000


@pytest.fixture(scope="module")
def root() -> Path:
    """A small Debian with PyTorch and all that the server needs, made once per lock."""
    recipe = f"{RECIPE} {SUITE} {PACKAGES}".encode() + LOCK.read_bytes()
    target = CACHE / "torch" / hashlib.sha256(recipe).hexdigest()[:16]
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        for old in target.parent.iterdir():
            shutil.rmtree(old)
        fresh = Path(tempfile.mkdtemp(dir=target.parent))
        make_root(fresh / "root")
        fresh.chmod(0o755)
        fresh.rename(target)
    return target / "root"


def make_root(folder: Path) -> None:
    """Build it with the packages of the machine's own apt sources, and the locked wheels."""
    command = [
        # As root it makes all mounts private; in a namespace of its own that harms nothing.
        *("unshare", "--mount", "mmdebstrap", "--variant=apt", f"--include={PACKAGES}"),
        # A mirror's snapshot may be older than its Release file allows.
        *('--aptopt=Acquire::Check-Valid-Until "false"', SUITE, str(folder)),
    ]
    subprocess.run(command, check=True, timeout=600, stdin=subprocess.DEVNULL)
    for name in ("srv/wheels", "srv/hearth", "srv/weights"):
        (folder / name).mkdir(parents=True)
    blocks = re.split(r"\n(?=[a-z])", LOCK.read_text())
    lock = folder / "srv/lock.txt"
    lock.write_text("\n".join(block for block in blocks if not block.startswith(LEFT_OUT)) + "\n")
    install = [UV, "pip", "install", "--quiet", "--target", str(folder / "srv/wheels")]
    install += ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    install += ["--python-version", PYTHON, "-r", str(lock)]
    subprocess.run(install, check=True, timeout=600, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def weights() -> Path:
    """Made-up weights, from the mock upstreams' cache."""
    return kokoro.prepare(CACHE / "mock_upstreams")


def inside(root: Path, weights: Path, *argv: str) -> list[str]:
    """Return the command that runs `argv` in the root, with Hearth's packages and the weights."""
    script = (
        'mount --bind -o ro "$1" "$3/srv/hearth" && mount --bind -o ro "$2" "$3/srv/weights" && '
        'mount -t proc proc "$3/proc" && root=$3 && shift 3 && exec chroot "$root" "$@"'
    )
    # Two threads that wait for each other take twice as long where neighbours are busy.
    settings = [
        "PYTHONPATH=/srv/hearth/kokoro:/srv/hearth/serving:/srv/wheels",
        "OMP_NUM_THREADS=1",
    ]
    outer = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"]
    places = [str(REPOSITORY / "services"), str(weights), str(root)]
    return [*outer, *places, "/usr/bin/env", *settings, *argv]


def test_pytorch_speaks_stops_and_takes_every_voice(root: Path, weights: Path) -> None:
    measured, log = measured_by(
        inside(root, weights, "/usr/bin/python3", "-P", "-W", "error", "-c", ENGINE.read_text())
    )
    print(f"\nPyTorch on {measured['provider']}: {measured}")
    # The model's own module logs downloads and warnings; none of them concern the house.
    assert "DEBUG" not in log
    assert measured["normed"] == 0
    assert measured["nothing"] == 0
    assert measured["sha256"] == digest_of(weights / "kokoro-v1_0.pth")
    # Made-up weights speak about as fast as people: 11 to 16 characters a second.
    assert len("Hello there.") / 22 < measured["words"] < len("Hello there.") / 8, measured
    assert measured["words"] == pytest.approx(measured["by_onnx"], rel=0.5)
    # Not half: a phoneme lasts whole frames, and these start with two or three.
    assert measured["words"] / 4 < measured["fast"] < measured["words"] / 1.2, measured
    assert 0.01 < measured["peak"] <= 1
    # The longest single layer cannot be interrupted; on a card it takes a millisecond.
    assert measured["stopped_ms"] < 1000, measured


def test_the_same_server_runs_it(root: Path, weights: Path) -> None:
    with serving(root, weights, "torch", "kokoro-v1_0.pth") as client:
        status = client.get("/status").json()
        assert (status["engine"], status["model"]) == ("torch", "kokoro-v1_0.pth")
        assert status["model_sha256"] == digest_of(weights / "kokoro-v1_0.pth")
        ask = {"input": "Hello there.", "model": "kokoro", "voice": "af_heart"}
        sound = client.post("/v1/audio/speech", json={**ask, "response_format": "pcm"})
        assert sound.status_code == 200, sound.text
        assert len(sound.content) / 2 / 24_000 > 0.4
        bad = client.post("/v1/audio/speech", json={**ask, "voice": "af_hart"})
        assert bad.status_code == 400


def test_a_card_speaks_as_fast_as_it_should(weights: Path) -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("not run: there is no NVIDIA card here (/dev/nvidiactl)")
    measured, _ = measured_by(
        [str(python_with_cuda()), "-P", str(CARD), str(weights), "cuda", "10"]
    )
    if measured["card"] is None:
        pytest.skip("not run: PyTorch finds no card that CUDA can use; see `nvidia-smi`")
    ttfa_ms, rate = statistics.median(measured["ttfa_ms"]), statistics.median(measured["rates"])
    print(f"\n{measured['card']}, torch {measured['torch']}, eager: "
          f"first sound after {ttfa_ms:.0f} ms, "
          f"{rate:.0f} characters a second")  # fmt: skip
    assert ttfa_ms <= TTFA_MS, measured
    assert rate >= CHARACTERS_PER_S, measured


def python_with_cuda() -> Path:
    """Return the Python of an environment with PyPI's torch, as a house with a card has it."""
    target = CACHE / "torch-cuda" / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    if not target.exists():
        shutil.rmtree(target.parent, ignore_errors=True)
        target.parent.mkdir(parents=True)
        fresh = target.with_suffix(".new")
        subprocess.run([UV, "venv", "-q", "--python", sys.executable, str(fresh)], check=True)
        install = [UV, "pip", "install", "--quiet", "--python", str(fresh / "bin/python")]
        install += ["--require-hashes", "--only-binary", ":all:", "-r", str(LOCK)]
        subprocess.run(install, check=True, timeout=1800, stdin=subprocess.DEVNULL)
        fresh.rename(target)
    return target / "bin/python"


def measured_by(command: list[str]) -> tuple[dict[str, Any], str]:
    """Run one of the two scripts; return its result, and its standard error."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
        env={
            **os.environ,
            "PYTHONPATH": f"{REPOSITORY}/services/kokoro:{REPOSITORY}/services/serving",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    measured: dict[str, Any] = json.loads(done.stdout.partition("RESULT ")[2])
    return measured, done.stderr


@contextmanager
def serving(root: Path, weights: Path, engine: str, model: str) -> Iterator[httpx.Client]:
    """Serve with one engine on a free port of the loopback until the caller is done."""
    argv = ["/usr/bin/python3", "-P", "-m", "hearth_kokoro"]
    argv += ["--engine", engine, "--model", f"/srv/weights/{model}"]
    argv += ["--voices", "/srv/weights/voices-v1.0.bin"]
    with kept_port() as port, tempfile.TemporaryFile("w+") as log:
        argv += ["--port", str(port)]
        process = subprocess.Popen(
            inside(root, weights, *argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HEARTH_KOKORO_KEY": ""},
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
                if not is_ready(client, process, _READY_S):
                    log.seek(0)
                    pytest.fail(f"{engine} is not ready:\n{log.read()[-3000:]}")
                yield client
        finally:
            # unshare ignores SIGTERM while it waits for its child, which dies with it.
            process.kill()
            process.wait(30)


def is_ready(client: httpx.Client, process: subprocess.Popen[bytes], within_s: float) -> bool:
    """Wait until it can speak; False when it ended or took too long."""
    until = time.monotonic() + within_s
    while time.monotonic() < until and process.poll() is None:
        try:
            if client.get("/health").status_code == 200:
                return True
        except httpx.TransportError:
            pass
        time.sleep(0.25)
    return False


def digest_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
