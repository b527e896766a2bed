"""Run gates, unit tests, model tests and the lab, with a ledger: what scripts/test calls."""

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, replace
from pathlib import Path

from hearth.render.units import exposure_ceiling

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".hearth" / "logs"
BIN = Path(sys.executable).parent
# Each run of mypy sees one package named `tests`, so the services are looked at one by one.
PROGRAMS = [
    ["hearth", "tests", "scripts"],
    ["services/login"],
    ["services/trust"],
    ["services/gateway"],
    ["services/model_puller"],
    ["services/serving"],
    ["services/kokoro"],
    ["services/whisper"],
    ["services/kokoro_patch"],
    ["services/pipelines"],
    ["services/open_webui"],
]
SCRIPTS = ["scripts/up", "scripts/test", "scripts/hearth", "scripts/environment", ".ci/run"]
# What the reference inventory renders to; committed, so that a review shows what a change does.
RENDERED = ["compose", "incus", "caddy", "litellm"]
# A full-size speech model in a real process: minutes of the processor's time.
MODELS = ["services/kokoro/tests/with_model", "services/whisper/tests/with_model"]
RENDER = "ansible/playbooks/render.yml"
# Two processes, each test file whole in one of them; one that dies is a failure, not tried again.
TWO = ["--numprocesses=2", "--dist=loadfile", "--max-worker-restart=0"]
# What needs something that few machines have. No other test may be left out: it counts as failed.
MAY_BE_LEFT_OUT = ("test_a_card_speaks_as_fast_as_it_should", "test_a_real_release_is_patched")


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of some tests; those that were not run are named, each with its reason."""

    passed: int
    failed: int
    not_run: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the run: what became of its tests, and how long it took."""

    name: str
    share_min: float
    seconds: float
    counts: Counts


def threshold(unit: Path) -> str:
    """Return the option that holds a unit to its own ceiling; systemd counts in tenths here."""
    return f"--threshold={round(exposure_ceiling(unit.read_text(encoding='utf-8')) * 10)}"


def gates() -> dict[str, list[list[str]]]:
    """Return each gate's commands; all of them must end with 0."""
    here = sys.executable
    units = sorted(str(p.relative_to(ROOT)) for d in RENDERED for p in ROOT.glob(f"{d}/*.service"))
    exposure = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    adapt = ["caddy", "adapt", "--adapter", "caddyfile", "--config"]
    gate = ["caddy", "validate", "--adapter", "caddyfile", "--config"]
    return {
        "ruff check": [[here, "-m", "ruff", "check"]],
        "ruff format": [[here, "-m", "ruff", "format", "--check"]],
        "mypy": [[here, "-m", "mypy", *names] for names in PROGRAMS],
        "yamllint": [[here, "-m", "yamllint", "--strict", "."]],
        "shellcheck": [[str(BIN / "shellcheck"), "--external-sources", *SCRIPTS]],
        "ansible-lint": [[str(BIN / "ansible-lint"), "--nocolor", "-q"]],
        "render drift": [[str(BIN / "ansible-playbook"), RENDER], [here, "scripts/drift.py"]],
        "units are hardened": [[*exposure, threshold(ROOT / unit), unit] for unit in units],
        "firewall loads": [["nft", "--check", "--file", "incus/firewall.nft"]],
        "resolver reads": [["dnsmasq", "--test", "--conf-file=incus/dnsmasq.conf"]],
        "Caddy reads": [
            [*adapt, "caddy/Caddyfile"],
            [*gate, "incus/ollama-gate.Caddyfile"],
        ],
    }


def run_gates() -> Part:
    """Run every gate, also after one has failed."""
    began, passed, failed = time.monotonic(), 0, 0
    for name, commands in gates().items():
        start = time.monotonic()
        said = next((text for text in map(_refused, commands) if text is not None), None)
        took = time.monotonic() - start
        print(f"{'ok    ' if said is None else 'FAILED'}  {took:6.1f} s  {name}", flush=True)
        if said is None:
            passed += 1
        else:
            failed += 1
            print(said, flush=True)
    return Part("gates", 3, time.monotonic() - began, Counts(passed, failed))


def _refused(argv: list[str]) -> str | None:
    """Return what a command said when it failed, `None` when it passed."""
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}:/usr/sbin",
        "ANSIBLE_NOCOLOR": "1",
    }
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            argv,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else (done.stdout + done.stderr).rstrip()


def run_pytest(name: str, share_min: float, *words: str) -> Part:
    """Run pytest with its output on the terminal, and count what it found."""
    LOGS.mkdir(parents=True, exist_ok=True)
    results = LOGS / f"{name}.xml"
    results.unlink(missing_ok=True)
    began = time.monotonic()
    argv = [sys.executable, "-m", "pytest", f"--junitxml={results}", "--durations=5", *words]
    done = subprocess.run(argv, cwd=ROOT, check=False)  # noqa: S603 - fixed words
    took = time.monotonic() - began
    counts = count(results) if results.exists() else Counts(0, 0)
    # No test at all, or a run that broke off, is no success.
    failed = max(counts.failed, int(done.returncode != 0 or not results.exists()))
    return Part(name, share_min, took, replace(counts, failed=failed))


def count(results: Path) -> Counts:
    """Return what pytest's JUnit file says; a test that was skipped is neither of the others."""
    passed = failed = 0
    not_run = []
    for suite in ElementTree.parse(results).getroot().iter("testsuite"):  # noqa: S314 - our own file
        wrong = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        failed += wrong
        passed += int(suite.get("tests", 0)) - wrong - int(suite.get("skipped", 0))
        for test in suite.iter("testcase"):
            skipped = test.find("skipped")
            if skipped is not None:
                name = f"{test.get('classname', '')}.{test.get('name', '')}".strip(".")
                not_run.append(f"{name}: {skipped.get('message') or 'no reason given'}")
    return Counts(passed, failed, tuple(not_run))


def ledger(parts: list[Part]) -> bool:
    """Print each part's minutes, what was not run and why, and at last one line with everything."""
    print("\nLedger of minutes")
    for part in parts:
        minutes = part.seconds / 60
        over = ", over its share" if minutes > part.share_min else ""
        print(f"{minutes:6.1f} min of {part.share_min:g}  {part.name}{over}")
    print(f"{sum(part.seconds for part in parts) / 60:6.1f} min  in all\n")
    counts = [part.counts for part in parts]
    not_run = [line for some in counts for line in some.not_run]
    if not_run:
        print("Not run", *(f"  {line}" for line in not_run), "", sep="\n")
    unasked = [line for line in not_run if not any(name in line for name in MAY_BE_LEFT_OUT)]
    if unasked:
        print("May not be left out", *(f"  {line}" for line in unasked), "", sep="\n")
    failed = sum(some.failed for some in counts) + len(unasked)
    print(f"{sum(some.passed for some in counts)} passed, {failed} failed, {len(not_run)} not run")
    return failed == 0


def main() -> int:
    """Run what was asked for; without a word: everything but what takes longer."""
    parser = argparse.ArgumentParser(prog="scripts/test", description=__doc__)
    for word in ("gates", "unit", "model", "lab"):
        parser.add_argument(f"--{word}", action="store_true", help=f"only the {word} tests")
    parser.add_argument("--all", action="store_true", help="what takes longer, too")
    parser.add_argument(
        "--sweep", type=int, metavar="N", help="only this: kill N runs (see tests/kill/sweep.py)"
    )
    asked, more = parser.parse_known_args()
    if asked.sweep:
        argv = [sys.executable, "-m", "tests.kill.sweep", str(asked.sweep), *more]
        return subprocess.run(argv, cwd=ROOT, check=False).returncode  # noqa: S603 - our own program
    if more:
        parser.error(f"unknown: {' '.join(more)}")
    some = asked.gates or asked.unit or asked.model or asked.lab
    parts = []
    if asked.gates or not some:
        parts.append(run_gates())
    if asked.unit or not some:
        parts.append(run_pytest("unit", 6, *TWO, *(f"--ignore={place}" for place in MODELS)))
    if asked.model or not some:
        parts.append(run_pytest("model", 5, *MODELS))
    if asked.lab or not some:
        marks = "lab" if asked.all else "lab and not long"
        parts.append(run_pytest("lab", 39, "tests/lab", "-m", marks, "-v", "-s"))
    return 0 if ledger(parts) else 1


if __name__ == "__main__":
    sys.exit(main())
