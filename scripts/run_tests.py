"""Run gates, unit tests, tests with models, and the lab; what scripts/test calls."""

import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hearth.render.units import exposure_ceiling
from scripts.drift import RENDERED
from scripts.options import read_options

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".hearth" / "logs"
BIN = Path(sys.executable).parent
SCRIPTS = ["scripts/up", "scripts/test", "scripts/hearth", "scripts/environment", ".ci/run"]
RENDER = "ansible/playbooks/render.yml"
# A full-size speech model in a real process: minutes of processor time.
MODELS = ["services/kokoro/tests/with_model", "services/whisper/tests/with_model"]
# Unit tests that are marked long.
LONG_UNIT = ["services/voice/tests/test_ten_minutes.py"]
ONE_START = ["services/kokoro/tests/with_model/test_line.py"]
# Unit tests that start whole servers, talk in real time or repeat a kill at many moments: two
# thirds of all unit tests' minutes. Only `--all` runs them, or `-k`; the house of the core tests
# starts the same servers.
WHOLE_SERVERS = [
    "services/agents/tests/test_limits.py",
    "services/agents/tests/test_waiting.py",
    "services/gateway/tests/with_litellm",
    "services/kokoro/tests/engines/test_selection.py",
    "services/kokoro_patch/tests/test_bytes.py",
    "services/kokoro_patch/tests/test_containers_broken.py",
    "services/kokoro_patch/tests/test_shapes.py",
    "services/pipelines/tests/test_agent_team.py",
    "services/pipelines/tests/test_loading.py",
    "services/pipelines/tests/test_second_opinion.py",
    "services/voice/tests/contract",
    "services/voice/tests/test_barge_in.py",
    "services/voice/tests/test_bench.py",
    "services/voice/tests/test_driven_clients.py",
    "services/voice/tests/test_house_client.py",
    "services/voice/tests/test_latency.py",
    "services/voice/tests/test_turns.py",
    "services/voice/tests/test_untrusted_clients.py",
    "services/whisper/tests/live/test_session.py",
    "services/whisper/tests/live/test_stream.py",
    "services/whisper/tests/recognition/test_model_selection.py",
    "services/whisper/tests/web/test_command.py",
    "services/whisper/tests/web/test_process.py",
    "services/whisper/tests/web/test_transcriptions.py",
    "tests/unit/attacks",
    "tests/unit/backup/test_interrupted.py",
    "tests/unit/backup/test_writer.py",
    "tests/unit/bench/stt/test_bench.py",
    "tests/unit/bench/tts/test_bench.py",
    "tests/unit/mock_upstreams/test_archive.py",
    "tests/unit/mock_upstreams/test_process.py",
    "tests/unit/plugins/test_one_run.py",
    "tests/unit/plugins/test_site.py",
    "tests/unit/roles/test_firewall_anywhere.py",
    "tests/unit/roles/test_firewall_parts.py",
    "tests/unit/roles/test_other_firewalls.py",
    "tests/unit/smoke/test_plugin.py",
    "tests/unit/smoke/test_tts_smoke.py",
]
# Two processes, each test file whole in one of them; a process that dies is a failure.
TWO = ["--numprocesses=2", "--dist=loadfile", "--max-worker-restart=0"]
# Tests that need what few machines have. Any other test that is left out counts as failed.
# llmfit's program needs a newer libc than Debian 12 has.
OPTIONAL = (
    *("test_a_card_speaks_as_fast_as_it_should", "test_a_real_release_is_patched"),
    "test_the_real_one_predicts_a_well_known_model",
)
NOT_STARTED = "not started: "
# The reference machine: two busy cores hash this much in this many seconds.
CALIBRATION_BYTES, CALIBRATION_S = 512 << 20, 0.2
# A part that takes this many times its minutes, compared with the calibration, is a warning.
SLOW = 1.5
# The minutes of each part on the reference machine; tests/lab/parts.py has the lab's.
GATES_MIN, UNIT_MIN, CORE_UNIT_MIN = 1.7, 10.0, 3.5
ONE_START_MIN, MODEL_MIN, LONG_MODEL_MIN = 0.8, 2.4, 4.4


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of tests that passed and failed; those not run are named with their reasons."""

    passed: int
    failed: int
    not_run: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the run: its minutes on the reference machine, and what this run took.

    `slowness` is how many times longer than the reference this machine took for the calibration
    beside it.
    """

    name: str
    minutes: float
    seconds: float
    counts: Counts
    slowness: float = 1.0
    below: tuple["Part", ...] = field(default=())

    @property
    def warning(self) -> bool:
        """Whether it took much longer than this machine's speed explains."""
        return self.seconds / 60 > SLOW * self.minutes * self.slowness


def calibrate() -> float:
    """Return how many times slower than the reference this machine is now, with both cores busy."""
    block = bytes(1 << 20)

    def work() -> None:
        digest = hashlib.sha256()
        for _ in range(CALIBRATION_BYTES >> 21):
            digest.update(block)

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work), pool.submit(work)]:
            done.result()
    return (time.monotonic() - began) / CALIBRATION_S


def threshold(unit: Path) -> str:
    """Return the option that holds a unit to its own ceiling; systemd counts in tenths here."""
    return f"--threshold={round(exposure_ceiling(unit.read_text(encoding='utf-8')) * 10)}"


def mypy_targets() -> list[list[str]]:
    """Return what each run of mypy checks; it allows one package named `tests` per run."""
    services = sorted(p.parent for p in ROOT.glob("services/*/tests") if p.is_dir())
    own = [[str(service.relative_to(ROOT))] for service in services]
    return [["hearth", "tests", "scripts"], *own]


def gates() -> dict[str, list[list[str]]]:
    """Return each gate's commands; all of them must end with 0."""
    here = sys.executable
    units = sorted(str(p.relative_to(ROOT)) for d in RENDERED for p in ROOT.glob(f"{d}/*.service"))
    exposure = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    caddy = ["--adapter", "caddyfile", "--config"]
    users = 's:skuid "hearth-[a-z-]+":skuid 0:'
    proxies = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("incus/*.Caddyfile"))
    return {
        "ruff check": [[here, "-m", "ruff", "check"]],
        "ruff format": [[here, "-m", "ruff", "format", "--check"]],
        "mypy": [[here, "-m", "mypy", *names] for names in mypy_targets()],
        "yamllint": [[here, "-m", "yamllint", "--strict", "."]],
        "shellcheck": [[str(BIN / "shellcheck"), "--external-sources", *SCRIPTS]],
        "ansible-lint": [[str(BIN / "ansible-lint"), "--nocolor", "-q"]],
        "render drift": [[str(BIN / "ansible-playbook"), RENDER], [here, "scripts/drift.py"]],
        "units are hardened": [[*exposure, threshold(ROOT / unit), unit] for unit in units],
        # Without the users of a house, which no other machine has.
        "firewall loads": [["sh", "-c", f"sed -E '{users}' incus/firewall.nft | nft --check -f -"]],
        "resolver reads": [["dnsmasq", "--test", "--conf-file=incus/dnsmasq.conf"]],
        "Caddy reads": [
            ["caddy", "adapt", *caddy, "caddy/Caddyfile"],
            *(["caddy", "validate", *caddy, proxy] for proxy in proxies),
        ],
    }


def run_gates() -> Part:
    """Run every gate, two at a time; the others go on after one has failed."""
    began, failures = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        # The longest first, so that they end together.
        every = gates()
        names = sorted(every, key=lambda name: name not in ("mypy", "ansible-lint"))
        results = pool.map(_timed, (every[name] for name in names))
        for name, (output, seconds) in zip(names, results, strict=True):
            print(f"{'FAILED' if output else 'ok    '}  {seconds:6.1f} s  {name}", flush=True)
            if output:
                failures += 1
                print(output, flush=True)
    passed = len(names) - failures
    return Part("gates", GATES_MIN, time.monotonic() - began, Counts(passed, failures))


def _timed(commands: Sequence[Sequence[str]]) -> tuple[str | None, float]:
    """Run a gate's commands up to the first that fails; return its output and the seconds."""
    began = time.monotonic()
    output = next((text for text in map(_failure, commands) if text is not None), None)
    return output, time.monotonic() - began


def _failure(argv: Sequence[str]) -> str | None:
    """Return the output of a command that failed, or None."""
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
    return None if done.returncode == 0 else (done.stdout + done.stderr).rstrip() or "it failed"


def run_pytest(name: str, minutes: float, *options: str) -> Part:
    """Run pytest with its output on the terminal, and count its results."""
    LOGS.mkdir(parents=True, exist_ok=True)
    results = LOGS / f"{name}.xml"
    results.unlink(missing_ok=True)
    began = time.monotonic()
    argv = [sys.executable, "-m", "pytest", f"--junitxml={results}", "--durations=5", *options]
    done = subprocess.run(argv, cwd=ROOT, check=False)  # noqa: S603 - fixed words
    took = time.monotonic() - began
    counts = count(results) if results.exists() else Counts(0, 0)
    # A run without tests, or one that broke off, is no success.
    failed = max(counts.failed, int(done.returncode != 0 or not results.exists()))
    return Part(name, minutes, took, replace(counts, failed=failed))


def count(results: Path) -> Counts:
    """Return the counts of pytest's JUnit file; a skipped test neither passed nor failed."""
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


def run_lab(tier: str, slowness: float, left_min: float | None, more: Sequence[str]) -> Part:
    """Run the lab's tests of a tier in one house; its parts are listed below it."""
    from tests.lab import parts  # a run without the lab does not need it

    LOGS.mkdir(parents=True, exist_ok=True)
    times = LOGS / "lab-parts.txt"
    times.unlink(missing_ok=True)
    options = [f"--tier={tier}", f"--slowness={slowness:.2f}", f"--parts-file={times}"]
    if left_min is not None:
        options.append(f"--minutes-left={left_min:.1f}")
    whole = run_pytest("lab", 0, "tests/lab", "-m", "lab", "-v", "-s", *options, *more)
    rows = [line.split() for line in times.read_text().splitlines()] if times.exists() else []
    below = tuple(
        Part(name, parts.ALL[name].minutes, float(seconds), Counts(0, 0), slowness)
        for name, seconds in rows
        if float(seconds) >= 1
    )
    return replace(whole, minutes=sum(part.minutes for part in below), below=below)


def ledger(run: Sequence[Part]) -> bool:
    """Print each part's minutes, what was not run and why, and at last one line with everything."""
    print("\nLedger of minutes (this run, the reference machine, how much slower this machine is)")
    rows = [row for part in run for row in [(part, ""), *((one, "  ") for one in part.below)]]
    for part, indent in rows:
        speed = f"x {part.slowness:.1f}" if part.slowness else ""
        print(f"{part.seconds / 60:6.1f} min of {part.minutes:4.1f} {speed}  {indent}{part.name}")
    print(f"{sum(part.seconds for part in run) / 60:6.1f} min  in all\n")
    if late := [part.name for part, _ in rows if part.warning and not part.below]:
        print(f"Warning: over {SLOW:g} times their minutes: {', '.join(late)}\n")
    counts = [part.counts for part in run]
    not_run = [line for some in counts for line in some.not_run]
    if not_run:
        print("Not run", *by_part(not_run), "", sep="\n")
    excused = (*OPTIONAL, NOT_STARTED)
    unexpected = [line for line in not_run if not any(text in line for text in excused)]
    if unexpected:
        print("May not be left out", *(f"  {line}" for line in unexpected), "", sep="\n")
    failed = sum(some.failed for some in counts) + len(unexpected)
    print(f"{sum(some.passed for some in counts)} passed, {failed} failed, {len(not_run)} not run")
    return failed == 0


def by_part(not_run: Sequence[str]) -> list[str]:
    """Return one line for a part of the lab that was not started, and one per other test."""
    parts: dict[str, list[str]] = {}
    for line in not_run:
        test, _, reason = line.partition(": ")
        file = re.match(r"tests\.lab\.\w+", test)
        key = f"{file[0]}: {reason}" if file and NOT_STARTED in reason else line
        parts.setdefault(key, []).append(test)
    return [f"  {line}{f' ({len(many)} tests)' * (len(many) > 1)}" for line, many in parts.items()]


def not_started(name: str, minutes: float, left_min: float) -> Part:
    """Return a part that would not end in time."""
    reason = f"{name}: {NOT_STARTED}it needs {minutes:.1f} min and {left_min:.1f} min are left"
    return Part(name, minutes, 0, Counts(0, 0, (reason,)))


def main() -> int:
    """Run the selected parts and print the ledger; return the exit code."""
    args, more = read_options()
    if args.sweep:
        argv = [sys.executable, "-m", "tests.kill.sweep", str(args.sweep), *more]
        return subprocess.run(argv, cwd=ROOT, check=False).returncode  # noqa: S603 - our own program
    deadline = time.monotonic() + 60 * args.within if args.within else None
    chosen = ["-k", args.k] if args.k else []
    run: list[Part] = []

    def start(name: str, minutes: float, *options: str) -> None:
        slowness = calibrate()
        left_min = (deadline - time.monotonic()) / 60 if deadline else minutes * slowness
        if left_min < minutes * slowness:
            run.append(not_started(name, minutes, left_min))
        else:
            part = run_gates() if name == "gates" else run_pytest(name, minutes, *options)
            run.append(replace(part, slowness=(slowness + calibrate()) / 2))

    if args.gates or args.core:
        start("gates", GATES_MIN)
        if run[-1].counts.failed:
            print("\nA gate failed, so nothing else was started.")
            ledger(run)
            return 1
    if args.unit or args.core:
        whole = args.all or args.unit
        left_out = MODELS if whole else [*MODELS, *WHOLE_SERVERS]
        minutes = UNIT_MIN if whole else CORE_UNIT_MIN
        ignored = (f"--ignore={place}" for place in left_out)
        start("unit", minutes, *TWO, "-m", "not long", *ignored, *chosen)
    if args.model and args.long:
        start("model", LONG_MODEL_MIN, *MODELS, *LONG_UNIT, "-m", "long", *chosen)
    elif args.model and args.all:
        start("model", MODEL_MIN, *MODELS, "-m", "not long", *chosen)
    elif args.model:
        start("model", ONE_START_MIN, *ONE_START, *chosen)
    if args.lab:
        tier = "long" if args.long else "all" if args.all else "core"
        slowness = calibrate()
        left_min = (deadline - time.monotonic()) / 60 if deadline else None
        part = run_lab(tier, slowness, left_min, chosen)
        run.append(replace(part, slowness=(slowness + calibrate()) / 2))
    return 0 if ledger(run) else 1


if __name__ == "__main__":
    sys.exit(main())
