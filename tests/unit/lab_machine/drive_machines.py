"""Real lab machines from create to destroy; run by hand as root: `python -m ... [--undo]`.

Every check ends the run when it fails. The picture of the outer machine before and after must be
the same. With `--undo` no other lab machine may exist, and packages, sysctls and caches count too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests import lab_machine as lab
from tests.lab_machine import inside, process, steps
from tests.lab_machine.model import STATE

PREFIX = os.environ.get("HEARTH_LAB_PREFIX", "itest")
HOUSE, OTHER, GUEST = f"{PREFIX}-a", f"{PREFIX}-b", f"{PREFIX}-g"
# Where this machine's own apt goes: a name that every lab must be able to ask for.
MIRROR = "$(apt-get indextargets --format '$(SITE)' | head -n 1 | cut -d / -f 3)"


def out(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def picture(*, whole: bool) -> dict[str, set[str]]:
    """All on this machine that a lab touches, as sets of lines."""
    programs = ("systemd-nspawn", "dnsmasq", "apt-cacher-ng", "hearth-lab")
    seen = {
        "links": {line.split(":")[1].strip() for line in out("ip", "-o", "link").splitlines()},
        "addresses": set(out("ip", "-o", "-4", "address").split("\n")),
        "routes": set(out("ip", "route").split("\n")),
        "loops": set(out("losetup", "--raw", "--noheadings", "-O", "BACK-FILE").split("\n")),
        "mounts": {
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        },
        "processes": {
            line
            for line in out("ps", "-eo", "args").splitlines()
            if any(name in line for name in programs) and "<defunct>" not in line
        },
        "groups": {str(path) for path in Path("/sys/fs/cgroup").rglob("hearth-lab-*")},
        "run": {str(path) for path in Path("/run/systemd/nspawn").rglob("*")},
        "state": {str(path) for path in STATE.glob("*")},
    }
    if whole:
        sysctls = ("net.ipv4.ip_forward", "fs.inotify.max_user_instances")
        seen["sysctls"] = {out("sysctl", name) for name in sysctls}
        seen["packages"] = set(out("dpkg-query", "-W").splitlines())
        seen["users"] = set(Path("/etc/passwd").read_text().splitlines())
        seen["groups of users"] = set(Path("/etc/group").read_text().splitlines())
        tops = (Path(top) for top in ("/var/lib", "/var/cache", "/var/log", "/etc"))
        # dpkg's own diary of what came and went stays, and should.
        kept = {"/var/log/dpkg.log", "/var/log/alternatives.log"}
        seen["folders"] = {str(path) for top in tops for path in top.glob("*")} - kept
        seen["rules"] = set(out("nft", "list", "ruleset").splitlines()) if _has_nft() else set()
        return seen
    # Other people's labs come and go meanwhile.
    return {part: {line for line in lines if PREFIX in line} for part, lines in seen.items()}


def _has_nft() -> bool:
    return Path("/usr/sbin/nft").exists()


def check(good: bool, what: str) -> None:
    print("   ok  " if good else " FAIL  ", what, flush=True)
    if not good:
        sys.exit(1)


def inside_says(name: str, script: str, timeout: float = 120) -> str:
    done = lab.run(name, ["sh", "-c", script], timeout=timeout)
    return done.stdout.strip() if done.returncode == 0 else f"exit {done.returncode} {done.stderr}"


def names_and_ways() -> None:
    end = lab.load(HOUSE).outer_address
    lab.set_names(HOUSE, {"github.com": end})
    check(end in inside_says(HOUSE, "getent ahosts github.com"), "a mapped name")
    check(end in inside_says(HOUSE, "getent ahosts objects.github.com"), "its subdomain")
    check(
        "exit 2" in inside_says(HOUSE, "getent ahostsv6 github.com | grep -v ffff || exit 2"),
        "no AAAA",
    )
    check("exit" not in inside_says(HOUSE, f"getent ahosts {MIRROR}"), "a real name")
    check("exit" not in inside_says(HOUSE, "apt-get -qq update"), "apt through the cache")


def save_and_restore() -> None:
    lab.run(HOUSE, ["sh", "-c", "echo 1 > /root/mark"], check=True)
    inner = lab.load(HOUSE).root / "opt" / "inner"
    out("btrfs", "subvolume", "create", str(inner))
    (inner / "file").write_text("1")
    lab.save(HOUSE, "first")
    lab.run(HOUSE, ["sh", "-c", "echo 2 > /root/mark; echo 2 > /opt/inner/file"], check=True)
    lab.restore(HOUSE, "first")
    check(
        inside_says(HOUSE, "cat /root/mark /opt/inner/file") == "1\n1", "restored, subvolumes too"
    )
    lab.restore(HOUSE, "first")
    lab.save(HOUSE, "first")
    check(inside_says(HOUSE, "cat /root/mark") == "1", "restored twice, saved over")


def guest() -> None:
    lab.create(GUEST, guest_of=HOUSE)
    lab.run(HOUSE, ["apt-get", "-qq", "install", "-y", "dnsmasq-base"], timeout=120, check=True)
    answer = f"--address=/try.lan/{lab.address(HOUSE)}"
    lab.run(HOUSE, ["dnsmasq", "--no-hosts", answer], check=True)
    check(
        lab.address(HOUSE) in inside_says(GUEST, "getent hosts try.lan"), "a guest asks the house"
    )
    check("exit" not in inside_says(GUEST, f"getent hosts {MIRROR}"), "and beyond through it")
    try:
        lab.destroy(HOUSE)
        check(False, "a house with guests is not destroyed")
    except lab.LabError as error:
        check("guests" in str(error), str(error))


def house_made_anew() -> None:
    before = process.recorded(inside.record(lab.load(HOUSE)))
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)
    time.sleep(0.3)
    lab.create(HOUSE)
    seen = lab.run(GUEST, ["ping", "-c1", "-W2", lab.address(HOUSE)]).stdout
    check("0% packet loss" in seen and "100%" not in seen, "a new house finds its guest")


def side_by_side() -> None:
    code = f"from hearth import lab; lab.create({OTHER!r})"
    child = subprocess.Popen([sys.executable, "-c", code])
    lab.create(f"{PREFIX}-c")
    check(child.wait() == 0, "two created at once")
    check(
        "100% packet loss" in lab.run(OTHER, ["ping", "-c1", "-W1", lab.address(HOUSE)]).stdout,
        "labs are apart",
    )


def kills() -> None:
    for delay_s in (0.3, 0.8, 1.3, 2.0, 2.7):
        lab.destroy(OTHER)
        code = f"from hearth import lab; lab.create({OTHER!r})"
        child = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(delay_s)
        child.kill()
        child.wait()
        if not _whole(OTHER):
            lab.create(OTHER)
        check(inside_says(OTHER, "hostname") == OTHER, f"created again after a kill at {delay_s} s")
    machine = lab.load(OTHER)
    identity = process.recorded(inside.record(machine))
    assert identity is not None
    os.kill(identity.pid, signal.SIGKILL)
    time.sleep(0.3)
    lab.create(OTHER)
    check(inside_says(OTHER, "hostname") == OTHER, "created again after nspawn was killed")
    same = process.recorded(inside.record(lab.load(OTHER)))
    assert same is not None
    os.kill(same.pid, signal.SIGKILL)
    time.sleep(0.3)
    lab.start(OTHER)
    check(inside_says(OTHER, "hostname") == OTHER, "started again after nspawn was killed")


def _whole(name: str) -> bool:
    try:
        return inside.running(lab.load(name)) and lab.load(name).ready
    except lab.LabError:
        return False


def main(*, undo: bool) -> None:
    steps.listen(
        lambda text, s: print("        " if s is None else f"{s:6.1f} s", text, flush=True)
    )
    if undo and lab.load_all():
        sys.exit("--undo: other lab machines exist")
    before = picture(whole=undo)
    lab.create(HOUSE)
    names_and_ways()
    save_and_restore()
    guest()
    house_made_anew()
    side_by_side()
    lab.reboot(HOUSE)
    check(inside_says(HOUSE, "systemctl is-system-running") == "running", "rebooted")
    kills()
    for name in (GUEST, HOUSE, OTHER, f"{PREFIX}-c"):
        lab.destroy(name)
    after = picture(whole=undo)
    for part, lines in before.items():
        extra, lost = after[part] - lines, lines - after[part]
        check(not extra and not lost, f"{part} as before {sorted(extra)} {sorted(lost)}")


if __name__ == "__main__":
    main(undo="--undo" in sys.argv)
