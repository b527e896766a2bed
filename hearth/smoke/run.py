"""Run the smoke tests and make the receipt of their results."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hearth.catalogue.house import House
from hearth.machine import description
from hearth.paths import RECEIPT_FOLDER
from hearth.project import Project
from hearth.smoke.receipt import Figure, Receipt, Verdict, VerifyError, drill_of, last_drill
from hearth.sources import Source
from hearth.sources.lock import known
from hearth.status import trust_addresses

_TESTS = Path(__file__).resolve().parent
# pytest's exit codes for "all passed" and "some failed"; with any other the run itself failed.
_RAN = (0, 1)


def run(
    project: Project, mark: str, on_verdict: Callable[[Verdict, int], None] = lambda _v, _n: None
) -> Receipt:
    """Run the smoke tests with `mark` and return their results.

    `on_verdict` is called with each verdict as soon as it is known, and with the total number.
    pytest's full output goes to the project's logs.

    Raises:
        VerifyError: the tests could not run; the text names the log.
    """
    house = project.house()
    log = project.logs / f"verify-{datetime.now():%Y%m%d-%H%M%S}.log"
    start = time.monotonic()
    verdicts: list[Verdict] = []
    notes: dict[str, Any] = {}
    total = 0
    for event in _events(project, mark, log):
        kind = event.pop("kind")
        if kind == "start":
            total = event["tests"]
        elif kind == "notes":
            notes = event
        else:
            verdicts.append(Verdict(**event))
            on_verdict(verdicts[-1], total)
    made, hearth = datetime.now(UTC).isoformat(timespec="seconds"), version(project)
    drill = drill_of({**notes["drill"], "made": made, "hearth": hearth}) if notes else None
    return Receipt(
        house=house.machine.name,
        made=made,
        seconds=round(time.monotonic() - start, 1),
        hearth=hearth,
        machine=description.machine(),
        accelerator=notes.get("accelerator", {}),
        versions=description.versions() | notes.get("versions", {}),
        addresses=[f"https://{site.fqdn}" for site in house.sites],
        figures=[Figure(**figure) for figure in notes.get("figures", [])],
        verdicts=verdicts,
        remarks=notes.get("remarks", []),
        unverified=unverified(project.inventory, house),
        trust=trust_addresses(house),
        drill=drill or last_drill(RECEIPT_FOLDER / "receipt.json"),
    )


def unverified(inventory: Path, house: House) -> list[str]:
    """Return the downloads whose digest this house itself recorded first, one line each."""
    found = []
    for name, shipped in house.sources.items():
        source = Source(name, shipped.version, shipped.url, shipped.sha256, shipped.size)
        digest = known(inventory, source).sha256
        if shipped.sha256 is None and digest:
            found.append(
                f"{name} {shipped.version}: unverified: Hearth ships no digest, so this house "
                f"recorded the first one that it saw: {digest}"
            )
    return found


def version(project: Project) -> str:
    """Return which Hearth this is: the commit, and whether it has local changes."""
    argv = ["git", "-C", str(project.root), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            argv, capture_output=True, text=True, check=False, timeout=10
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _events(project: Project, mark: str, log: Path) -> Iterator[dict[str, Any]]:
    """Yield each event as soon as the plugin writes it."""
    reader, writer = os.pipe()
    argv = [sys.executable, "-m", "pytest", "-c", str(_TESTS / "pytest.ini"), str(_TESTS)]
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
            # A caller that stops reading also stops the tests.
            process.terminate()
            process.wait()
    if code not in _RAN:
        raise VerifyError(f"the smoke tests could not run (pytest exit code {code}): read {log}")
