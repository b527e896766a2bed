"""Run the smoke tests and make the receipt of what they found."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from hearth.catalogue.house import House
from hearth.clients.trust import ways
from hearth.machine import description as facts
from hearth.paths import RECEIPT_FOLDER
from hearth.project import Project
from hearth.smoke.drill import record
from hearth.smoke.figures import Figure
from hearth.smoke.receipt import Receipt, Verdict, VerifyError, now
from hearth.sources import Source
from hearth.sources.lock import known

# pytest's own words for "all passed" and "some failed"; everything else is trouble with the run.
_RAN = (0, 1)


def run(
    project: Project, mark: str, on_verdict: Callable[[Verdict, int], None] = lambda _v, _n: None
) -> Receipt:
    """Run the smoke tests with `mark` and return what they found.

    `on_verdict` is called with each verdict as soon as it is known, and with how many there are
    in all. The full output of pytest lies in the project's logs.

    Raises:
        VerifyError: the tests could not run; the text names the log.
    """
    house = project.house()
    log = project.logs / f"verify-{datetime.now():%Y%m%d-%H%M%S}.log"
    began = time.monotonic()
    verdicts: list[Verdict] = []
    notes: dict[str, Any] = {}
    total = 0
    for event in _events(project, mark, log):
        if event["kind"] == "start":
            total = event["tests"]
        elif event["kind"] == "notes":
            notes = event
        else:
            verdicts.append(_verdict(event))
            on_verdict(verdicts[-1], total)
    made, hearth = now(), version(project)
    drilled = record.read(notes.get("drill", {}), made, hearth)
    return Receipt(
        house=house.machine.name,
        made=made,
        seconds=round(time.monotonic() - began, 1),
        hearth=hearth,
        machine=facts.machine(),
        accelerator=notes.get("accelerator", {}),
        versions=facts.versions() | notes.get("versions", {}),
        addresses=[f"https://{site.fqdn}" for site in house.sites],
        figures=[Figure(**figure) for figure in notes.get("figures", [])],
        verdicts=verdicts,
        remarks=notes.get("remarks", []),
        unverified=unverified(project.inventory, house),
        trust=ways(house),
        drill=drilled or record.kept(RECEIPT_FOLDER / "receipt.json"),
    )


def unverified(inventory: Path, house: House) -> list[str]:
    """Say which downloads are recognised by what this house itself saw first, one line each."""
    found = []
    for name, shipped in house.sources.items():
        source = Source(name, shipped.version, shipped.url, shipped.sha256, shipped.size)
        digest = known(inventory, source).sha256
        if shipped.sha256 is None and digest:
            found.append(
                f"{name} {shipped.version}: first-sight: no digest is shipped, so this house "
                f"recorded the one that it saw first: {digest}"
            )
    return found


def version(project: Project) -> str:
    """Return which Hearth this is: the commit, and whether something in it was changed."""
    argv = ["git", "-C", str(project.root), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            argv, capture_output=True, text=True, check=False, timeout=10
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _verdict(event: dict[str, Any]) -> Verdict:
    wanted = ("promise", "about", "outcome", "detail", "seconds", "percent", "journal")
    return Verdict(**{key: event[key] for key in wanted})


def _events(project: Project, mark: str, log: Path) -> Iterator[dict[str, Any]]:
    """Yield what the plugin writes, as it writes it."""
    reader, writer = os.pipe()
    tests = Path(__file__).resolve().parent
    argv = [sys.executable, "-m", "pytest", "-c", str(tests / "pytest.ini"), str(tests)]
    argv += ["--rootdir", str(project.root), "-m", mark]
    argv += ["-p", "hearth.smoke.plugin", f"--hearth-events=/dev/fd/{writer}"]
    with log.open("wb") as output, os.fdopen(reader, encoding="utf-8") as stream:
        process = subprocess.Popen(  # noqa: S603 - fixed words
            argv,
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
            env=os.environ | {"HEARTH_PROJECT": str(project.root), "NO_COLOR": "1"},
        )
        os.close(writer)
        try:
            for line in stream:
                yield json.loads(line)
            code = process.wait()
        finally:
            # Whoever stops reading stops the tests too.
            process.terminate()
            process.wait()
    if code not in _RAN:
        raise VerifyError(f"the smoke tests could not run (pytest said {code}): read {log}")
