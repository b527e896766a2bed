#!/usr/bin/python
"""Bring one program to the described state, decided from what is there and not from this run."""

from __future__ import annotations

DOCUMENTATION = """
module: service_converge
short_description: Converge the files and the running unit of one program in one step
description:
  - Writes what differs, restarts (or reloads) when the digest of all that the process depends on is
    not the one recorded when it was last healthy, waits until it is healthy, and records last.
    A killed run therefore leaves nothing undone that the next one does not see.
author: Hearth
options:
  name: {description: Name of the unit without `.service`., type: str, required: true}
  unit: {description: Text of the unit file; empty for a unit that Debian brings., type: str}
  user: {description: System user to make., type: str}
  uid: {description: Number of that user; -1 for any., type: int}
  folders:
    description: "Folders: path, owner, group, mode; whole, to take all that lies in it over."
    type: list
    elements: dict
  files: {description: "Files: path, content, owner, group, mode, check.", type: list}
  credentials: {description: "Names of secrets that service_credentials wrote before.", type: list}
  credentials_change: {description: Whether it would write other ones (check mode)., type: bool}
  watch: {description: "Paths whose content or link target the process depends on.", type: list}
  observe: {description: "Commands whose output belongs to the state, e.g. a ruleset.", type: list}
  reloads: {description: Reload instead of restart when only files changed., type: bool}
  health:
    description: url, contains, within_s; or dns_name, dns_server; or command; and ready_s.
    type: dict
"""

import contextlib
import grp
import hashlib
import http.client
import json
import os
import pwd
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

RECORDS = Path("/var/lib/hearth/converged")
CREDENTIALS = Path("/etc/hearth/credentials")
UNITS = Path("/etc/systemd/system")
USERS = Path("/etc/sysusers.d")
COMMAND_LIMIT_S = 120
ANSWER_BYTES = 65536
LOOP = 5  # starts in vain, after which a program will not come up by itself


class Trouble(Exception):
    """What went wrong, in one line for a person."""


def run(argv: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one local program with a limit; `Trouble` with its last words when it fails."""
    try:
        result = subprocess.run(  # noqa: S603  the role's own words, no shell
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Trouble(f"{' '.join(argv[:3])}: {error}") from None
    if check and result.returncode:
        words = (result.stderr or result.stdout).strip().splitlines() or ["no output"]
        raise Trouble(f"{' '.join(argv[:3])}: {words[-1]}")
    return result


class Desired:
    """Every file that the program needs, its unit and its user included; secrets lie elsewhere."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Take the module's arguments."""
        self.name = params["name"]
        self.files = [dict(file) for file in params["files"] or []]
        self.folders = list(params["folders"] or [])
        if params["user"]:
            uid = params["uid"] if params["uid"] >= 0 else "-"
            line = f'u {params["user"]} {uid} "Hearth" -\n'
            self.files.insert(0, {"path": str(USERS / f"hearth-{self.name}.conf"), "content": line})
        if params["unit"]:
            self.files.append(
                {"path": str(UNITS / f"{self.name}.service"), "content": params["unit"]}
            )


def differs(file: dict[str, Any]) -> bool:
    """Whether the file on disk has other content, mode or owner than the described one."""
    path = Path(file["path"])
    try:
        stat = path.lstat()
        same_text = path.read_bytes() == file["content"].encode()
    except OSError:
        return True
    if path.is_symlink() or not same_text or (stat.st_mode & 0o7777) != mode_of(file, "0644"):
        return True
    return (stat.st_uid, stat.st_gid) != owner_of(file)


def mode_of(item: dict[str, Any], default: str) -> int:
    """The mode as a number."""
    return int(item.get("mode", default), 8)


def owner_of(item: dict[str, Any]) -> tuple[int, int]:
    """Numbers of owner and group; -1 for a user that is not made yet (as in check mode)."""
    owner, group = item.get("owner", "root"), item.get("group") or item.get("owner", "root")
    try:
        return pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid
    except KeyError:
        return -1, -1


def make_folder(item: dict[str, Any], write: bool) -> bool:
    """Make the folder or mend its mode and owner; say whether that was needed."""
    path, mode = Path(item["path"]), mode_of(item, "0755")
    if path.is_symlink():
        # Its owner may be the program itself, and root would give it whatever the link points to.
        raise Trouble(f"{path} is a link where a folder belongs: remove it")
    try:
        stat = path.stat()
        same = (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid) == (mode, *owner_of(item))
    except FileNotFoundError:
        same = False
    if not same and write:
        path.mkdir(parents=True, exist_ok=True)
        if item.get("whole"):
            # Before the folder itself: a run killed in the middle is then seen and done again.
            owner, group = owner_of(item)
            run(["chown", "--recursive", "--no-dereference", f"{owner}:{group}", f"{path}/."])
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(handle, *owner_of(item))
            os.fchmod(handle, mode)
        finally:
            os.close(handle)
    return not same


def fresh_name(path: Path) -> Path:
    """Where the new text of a file lies until it is whole."""
    return path.with_name(f".{path.name}.new")


def write_file(file: dict[str, Any]) -> None:
    """Replace one file at once, after its checker has accepted the new text."""
    path = Path(file["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    name = str(fresh_name(path))
    try:
        # A fixed name: what a killed run left here is found, and goes first.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(file["content"].encode())
            stream.flush()
            os.fsync(stream.fileno())
        os.chown(name, *owner_of(file))
        os.chmod(name, mode_of(file, "0644"))
        if file.get("check"):
            run([word.replace("%s", name) for word in file["check"]])
        os.replace(name, path)
    except Trouble as error:
        raise Trouble(f"{path} was not replaced, its checker refused it: {error}") from None
    except OSError as error:
        raise Trouble(f"{path} was not replaced: {error.strerror}") from None
    finally:
        if os.path.lexists(name):
            os.unlink(name)


def diff_of(file: dict[str, Any]) -> dict[str, str]:
    """Before and after for `--diff`."""
    path = Path(file["path"])
    before = path.read_text(errors="replace") if path.is_file() else ""
    header = {"before_header": str(path), "after_header": str(path)}
    return {"before": before, "after": file["content"], **header}


def digest_of(desired: Desired, params: dict[str, Any], skip: set[str]) -> str:
    """One digest of all that the process depends on, except the paths in `skip`."""
    whole = hashlib.sha256()
    for file in sorted(desired.files, key=lambda item: item["path"]):
        if file["path"] not in skip:
            whole.update(f"{file['path']}\0{file['content']}\0".encode())
    secrets = [f"{CREDENTIALS}/{desired.name}/{key}" for key in params["credentials"] or []]
    for name in sorted([*(params["watch"] or []), *secrets]):
        whole.update(f"{name}\0{look_at(Path(name))}\0".encode())
    for command in params["observe"] or []:
        # Before the first run the program that shows it may still be missing (check mode).
        if shutil.which(str(command[0])) is None:
            continue
        whole.update(run([str(word) for word in command], check=False).stdout.encode())
    return whole.hexdigest()


def look_at(path: Path) -> str:
    """The target of a link, the digest of a file, or that there is nothing."""
    if path.is_symlink():
        return os.readlink(path)
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return "a folder" if path.is_dir() else "nothing"


def recorded(name: str) -> str:
    """The digest that was true when the program was last healthy."""
    try:
        return str(json.loads((RECORDS / f"{name}.json").read_text())["digest"])
    except (OSError, ValueError, KeyError):
        return ""


def record(name: str, digest: str, files: list[dict[str, Any]]) -> None:
    """Keep what is true now, for the next run; and which files are ours, for who removes them."""
    paths = sorted(file["path"] for file in files)
    RECORDS.mkdir(parents=True, exist_ok=True)
    write_file(
        {
            "path": str(RECORDS / f"{name}.json"),
            "content": json.dumps({"digest": digest, "at": int(time.time()), "files": paths})
            + "\n",
        }
    )


def unit_state(name: str) -> dict[str, str]:
    """What systemd says of the unit: whether it runs, starts at boot, and is as on disk."""
    shown = run(
        [
            "systemctl",
            "show",
            f"{name}.service",
            "-p",
            "ActiveState,UnitFileState,NeedDaemonReload,ConditionResult,NRestarts",
        ],
        check=False,
    ).stdout
    return dict(line.partition("=")[::2] for line in shown.splitlines())


def healthy(health: dict[str, Any]) -> str:
    """Ask once; the empty text for yes, otherwise what was seen."""
    if "command" in health:
        result = run(health["command"], check=False)
        return "" if result.returncode == 0 else f"exit code {result.returncode}"
    if "dns_name" in health:
        return answered(health["dns_name"], health["dns_server"])
    try:
        # The address comes from the catalogue, and a proxy of the machine has no part in it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(health["url"], timeout=health["within_s"]) as answer:
            text = read_within(answer, health["within_s"]).decode(errors="replace")
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error))
    return "" if health["contains"] in text else f"an answer without {health['contains']!r}"


def read_within(answer: Any, within_s: float) -> bytes:
    """Read the begin of an answer; a timeout bounds each read alone, and a drip would never end."""
    end, text = time.monotonic() + within_s, b""
    while (piece := answer.read1(8192)) and len(text) < ANSWER_BYTES:
        text += piece
        if time.monotonic() > end:
            raise OSError(f"no whole answer in {within_s:g} s")
    return text


def answered(name: str, server: str) -> str:
    """Ask a resolver for one IPv4 address; the empty text when it knew one."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = b"HE\x01\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.settimeout(2)
        try:
            wire.sendto(question, (server, 53))
            reply = wire.recv(512)
        except OSError as error:
            return str(error)
    # Bytes 6 and 7 of a DNS message count the answers (RFC 1035, 4.1.1).
    return "" if reply[:2] == b"HE" and reply[7] else f"no address for {name}"


def wait_healthy(name: str, health: dict[str, Any]) -> None:
    """Return when the program answers as it should; `Trouble` with its last words otherwise."""
    began, before = time.monotonic(), restarts(unit_state(name))
    while seen := healthy(health):
        now = unit_state(name)
        state = now.get("ActiveState")
        waited, ends = time.monotonic() - began, restarts(now) - before
        if waited > health["ready_s"]:
            raise unhealthy(name, f"is not healthy after {health['ready_s']} s ({seen}; {state})")
        # One that ends as often as it is started would be waited for in vain.
        if state == "failed" or ends >= LOOP:
            raise unhealthy(name, f"ended {ends + 1} times in {waited:.0f} s ({seen})")
        time.sleep(0.3)


def restarts(state: dict[str, str]) -> int:
    """How often systemd has started the program again since somebody asked for it."""
    said = state.get("NRestarts", "")
    return int(said) if said.isdigit() else 0


def unhealthy(name: str, what: str) -> Trouble:
    """The trouble, with the program's last words."""
    # The journal says why; a person should not have to know where to look for it.
    lines = run(
        ["journalctl", "-u", f"{name}.service", "-n", "15", "-o", "cat", "--no-pager"],
        check=False,
    ).stdout
    return Trouble(f"{name} {what}; its last words:\n{lines}")


def make_user(desired: Desired, user: str) -> list[str]:
    """Make the program's user where it lacks; give the path of its record if that was written."""
    if not user:
        return []
    file = desired.files[0]
    wrote = differs(file)
    if wrote:
        write_file(file)
    # A run that was killed right here left the record and no user.
    if wrote or owner_of({"owner": user}) == (-1, -1):
        run(["systemd-sysusers", file["path"]])
    return [file["path"]] if wrote else []


def stale_credentials(name: str, params: dict[str, Any]) -> list[Path]:
    """Secret files of earlier runs that nobody asks for any more."""
    wanted = params["credentials"] or []
    return sorted(path for path in (CREDENTIALS / name).glob("*") if path.name not in wanted)


def still_true(files: list[dict[str, Any]], params: dict[str, Any]) -> str:
    """What the last record still says when these files are not as described.

    The program may have been started with them as they were found, so that part is in doubt.
    """
    before = recorded(params["name"])
    if not files:
        return before
    own = {file["path"] for file in params["files"] or []}
    return "/" + before.partition("/")[2] if all(file["path"] in own for file in files) else ""


def converge(module: AnsibleModule) -> dict[str, Any]:
    """Do it all; give `changed`, the action taken and the files written."""
    params, write = module.params, not module.check_mode
    desired = Desired(params)
    name = desired.name
    user = make_user(desired, params["user"]) if write else []
    folders = [item["path"] for item in desired.folders if make_folder(item, write)]
    files = [file for file in desired.files if differs(file)]
    diffs = [diff_of(file) for file in files] if module._diff else []
    before, stale = still_true(files, params), stale_credentials(name, params)
    if write:
        if files:
            # First of all: were this run killed, the next one would find the files right.
            record(name, before, desired.files)
        for file in files:
            write_file(file)
        for path in stale:
            path.unlink()
        # Its file may be right again by now, and nobody would write it.
        for file in desired.files:
            fresh_name(Path(file["path"])).unlink(missing_ok=True)
    wrote = user + [file["path"] for file in files]
    gone = [str(path) for path in stale]
    action = next_action(desired, params, before)
    if params["credentials_change"]:
        action = "restart"
    if write and action:
        act(name, action, params)
        record(name, wanted_record(desired, params), desired.files)
    did = [f"make {path}" for path in folders] + [f"write {path}" for path in wrote]
    did += [f"remove {path}" for path in gone] + ([f"{action} {name}"] if action else [])
    touched = folders + wrote + gone
    return {"changed": bool(did), "action": action, "files": touched, "did": did, "diff": diffs}


def wanted_record(desired: Desired, params: dict[str, Any]) -> str:
    """`WHOLE/PROCESS`: everything, and everything that needs a restart and not only a reload."""
    own = {file["path"] for file in params["files"] or []} if params["reloads"] else set()
    return f"{digest_of(desired, params, set())}/{digest_of(desired, params, own)}"


def next_action(desired: Desired, params: dict[str, Any], before: str) -> str:
    """What the running state lacks: restart, reload, start, enable, or nothing."""
    now = wanted_record(desired, params)
    state = unit_state(desired.name)
    if before != now:
        alive = state.get("ActiveState") == "active"
        only_files = params["reloads"] and before.partition("/")[2] == now.partition("/")[2]
        return "reload" if alive and only_files else "restart"
    # systemd itself leaves some units out where they cannot work (sysctl in a container).
    if state.get("ActiveState") != "active" and state.get("ConditionResult") != "no":
        return "start"
    if params["unit"] and state.get("UnitFileState") != "enabled":
        return "enable"
    return "daemon-reload" if state.get("NeedDaemonReload") == "yes" else ""


def act(name: str, action: str, params: dict[str, Any]) -> None:
    """Carry the action out and wait until the program is healthy."""
    run(["systemctl", "daemon-reload"])
    if params["unit"]:
        run(["systemctl", "enable", "--quiet", f"{name}.service"])
    if action in ("restart", "start"):
        # A unit that reached its start limit would refuse even a good configuration.
        run(["systemctl", "reset-failed", f"{name}.service"], check=False)
    if action in ("restart", "reload", "start"):
        run(["systemctl", action, f"{name}.service"])
    if params["health"]:
        wait_healthy(name, params["health"])


def main() -> None:
    """Read the arguments, converge, and answer."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "unit": {"type": "str", "default": ""},
            "user": {"type": "str", "default": ""},
            "uid": {"type": "int", "default": -1},
            "folders": {"type": "list", "elements": "dict"},
            "files": {"type": "list", "elements": "dict"},
            "credentials": {"type": "list", "elements": "str", "no_log": False},
            "credentials_change": {"type": "bool", "default": False, "no_log": False},
            "watch": {"type": "list", "elements": "str"},
            "observe": {"type": "list", "elements": "list"},
            "reloads": {"type": "bool", "default": False},
            "health": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    try:
        if shutil.which("systemctl") is None:
            raise Trouble("there is no systemd here; this part of a house needs it")
        module.exit_json(**converge(module))
    except Trouble as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
