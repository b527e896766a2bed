"""Upstream's Kokoro-FastAPI in the house: unpatched, patched, and restored.

It is a miniature of upstream (tests/mock_upstreams/kokoro_fastapi). The role fetches,
installs and patches it as it would the real one, and the probe of `hearth bench tts` measures it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.house import CLONE, House, changed
from tests.lab.saved import HOUSE
from tests.mock_upstreams.kokoro_fastapi.archive import packed

pytestmark = pytest.mark.lab

SERVICE, INSTANCE, PORT = "kokoro_fastapi", "kokoro-fastapi", 8882
ADDRESS = "10.140.30.26"
CURRENT = f"/var/lib/hearth/programs/{SERVICE}/current"
# The miniature needs three libraries of the thirty that the real one has, and no PyTorch.
RECORD = f"""  {SERVICE}:
    enabled: true
    packages: [ca-certificates, python3]
    sources: [{SERVICE}]
"""
LOCK = f"{CLONE}/tests/mock_upstreams/kokoro_fastapi/requirements.txt"
OURS = {".hearth-manifest.json", ".hearth-patch"}
# A person who runs upstream's own container has its files here.
APP = "/app"
PROBE = """
import asyncio, json, sys, time
from hearth.clients.endpoints import Endpoint
from hearth.bench.tts.answer import TtsCase
from hearth.bench.tts.run import TtsServer, speak
from hearth.clients.texts import Texts

async def main(url, turns):
    server, texts, early, health, errors = Endpoint("it", url), Texts(), [], [], []
    async with server.client() as client, server.client() as beside:
        target = TtsServer(server, client)
        await speak(target, TtsCase("phrase"), texts.phrase())
        await beside.get("/health")
        for turn in range(turns):
            (sample,) = await speak(target, TtsCase("phrase"), texts.phrase())
            early.append(sample.early)
            errors.append(sample.error)
            speaking = asyncio.create_task(speak(target, TtsCase("phrase"), texts.phrase()))
            await asyncio.sleep(0.1)
            began = time.perf_counter()
            response = await beside.get("/health")
            took_s = time.perf_counter() - began
            (spoken,) = await speaking
            health.append(took_s / (spoken.last_byte_ms / 1000))
            errors.append("" if response.is_success else response.text)
    print(json.dumps({"early": early, "health": health, "errors": [e for e in errors if e]}))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """One state in which the service ran: its measurements and its files."""

    early: list[float]
    """The part of an answer's time that was left when its first byte came."""
    health: list[float]
    """How much of an answer's time a health check took."""
    files: dict[str, str]
    link: str


@dataclass(frozen=True, slots=True)
class Run:
    """The service unpatched, patched, and unpatched again."""

    plain: Stage
    contained: dict[str, Any]
    patched: Stage
    again: int
    back: Stage


@pytest.fixture(scope="module")
def deployed(house: House) -> Iterator[None]:
    """Deploy it unpatched, as its user would; the house is as before at the end."""
    try:
        house.edit("services.yml", "services:\n", f"services:\n{RECORD}")
        setting(house, patch=False)
        house.converge(INSTANCE)
        yield
    finally:
        house.back_to(HOUSE)


@pytest.fixture(scope="module")
def run(house: House, deployed: None) -> Run:
    """Examine it unpatched, patched, and unpatched again."""
    plain, contained = look(house, 3), container(house)
    setting(house, patch=True)
    converge(house)
    patched = look(house, 3)
    again = converge(house)
    setting(house, patch=False)
    converge(house)
    return Run(plain, contained, patched, again, look(house, 1))


def setting(house: House, *, patch: bool) -> None:
    """Write the role's settings where its README says."""
    house.set(SERVICE, {"kokoro_fastapi_requirements": LOCK, "kokoro_fastapi_patch": patch})


def converge(house: House) -> int:
    """Converge this service alone; return how many tasks changed anything."""
    return changed(house.site("--tags", SERVICE))


def look(house: House, turns: int) -> Stage:
    """Measure the running service, and list its files."""
    script = f"cd {CLONE}; exec .venv/bin/python - http://{ADDRESS}:{PORT} {turns}"
    measured = json.loads(house.shell(f"{script} <<'EOF'\n{PROBE}EOF"))
    assert measured["errors"] == [], measured
    link = house.shell(f"readlink {CURRENT}").strip()
    return Stage(measured["early"], measured["health"], files(house, f"{CURRENT}/"), link)


def files(house: House, folder: str, inside: str = "") -> dict[str, str]:
    """Return the digest of each of upstream's files below a folder."""
    listed = f"cd {folder}; find . -type f -exec sha256sum {{}} +"
    into = f"incus exec {inside} -- sh -c '{listed}' </dev/null" if inside else f"({listed})"
    rows = (line.split(maxsplit=1) for line in house.shell(into).splitlines())
    found = {path.removeprefix("./"): digest for digest, path in rows}
    return {path: digest for path, digest in found.items() if path.split("/")[0] not in OURS}


def container(house: House) -> dict[str, Any]:
    """Patch a container with the documented command, examine it, and restore it."""
    copy = f"mkdir {APP} && cp -r /opt/hearth/{SERVICE}/current/. {APP}/ && rm {APP}/.hearth*"
    house.shell(f"incus exec {INSTANCE} -- sh -c '{copy}' </dev/null")
    before = files(house, APP, INSTANCE)
    words = ("kokoro-patch", "--container", INSTANCE, "--yes")
    done, there = house.hearth(*words), files(house, APP, INSTANCE)
    back = house.hearth(*words, "--take-back")
    return {
        "output": [done.stdout + done.stderr, back.stdout + back.stderr],
        "codes": [done.returncode, back.returncode],
        "files": [before, there, files(house, APP, INSTANCE)],
    }


def side_by_side(house: House) -> tuple[dict[str, Any], str]:
    """Measure the house's own server beside it, as data and as the printed table."""
    out = "/tmp/beside"
    words = ["bench", "tts", "--against", SERVICE, "--quick", "--runs", "1", "--out", out]
    # Its long text, crowds and formats show nothing more about a script.
    words += ["--only", "phrase", "--only", "paragraph"]
    done = house.hearth(*words, timeout=300)
    # 1 is a finding about the first server, on a machine that is busy with other work.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return json.loads(house.shell(f"cat {out}/bench-tts.json")), done.stdout


def test_unpatched_it_speaks_in_one_burst_and_blocks_other_requests(run: Run, house: House) -> None:
    print(f"\nas it comes: {run.plain.early}, /health {run.plain.health}")
    house.figures["upstream's miniature, part of the time left at the first byte"] = max(
        run.plain.early
    )
    assert max(run.plain.early) <= 0.1
    assert min(run.plain.health) >= 0.5


def test_patched_it_speaks_from_the_first_sentence_and_answers_meanwhile(
    run: Run, house: House
) -> None:
    print(f"\npatched: {run.patched.early}, /health {run.patched.health}")
    house.figures["the same, patched"] = min(run.patched.early)
    assert min(run.patched.early) >= 0.4
    assert max(run.patched.health) <= 0.2
    assert run.again == 0, "a second run changed something"


def test_the_role_installed_upstreams_own_files_and_changed_two(run: Run) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed())) as tar:
        contents = {
            entry.name.partition("/")[2]: tar.extractfile(entry).read()  # type: ignore[union-attr]
            for entry in tar
            if entry.isfile()
        }
    shipped = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    assert run.plain.files == shipped
    differing = {name for name in shipped if run.patched.files[name] != shipped[name]}
    assert differing == {"api/src/inference/kokoro_v1.py", "api/src/services/tts_service.py"}
    assert run.patched.files.keys() == shipped.keys()


def test_one_link_restores_it_byte_for_byte(run: Run) -> None:
    assert run.back.files == run.plain.files
    assert run.back.link == run.plain.link != run.patched.link
    assert max(run.back.early) <= 0.1


def test_the_documented_command_patches_a_container_and_restores_it(run: Run) -> None:
    assert run.contained["codes"] == [0, 0], run.contained["output"]
    before, patched, back = run.contained["files"]
    assert before == back == run.plain.files
    # Both methods give the same result.
    assert patched == run.patched.files


# tests/unit/bench/tts compares scripted servers, also a service of the house by its name.
@pytest.mark.long
@pytest.mark.usefixtures("deployed")
def test_the_bench_shows_both_side_by_side(house: House) -> None:
    setting(house, patch=True)
    converge(house)
    measured, shown = side_by_side(house)
    ours, theirs = measured["servers"]
    assert (theirs["stopped"], theirs["url"]) == ("", f"http://{ADDRESS}:{PORT}")
    early = [
        next(f["spreads"] for f in server["figures"] if f["case"]["what"] == "phrase")["early"]
        for server in (ours, theirs)
    ]
    # The house's own server comes first; the rest of the time depends on the machine.
    assert early[0]["median"] >= 0.3
    assert early[1]["median"] >= 0.4
    assert "Side by side" in shown
    print(shown[: shown.index(": targets")], flush=True)
