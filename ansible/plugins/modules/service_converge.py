#!/usr/bin/python
"""Bring programs to the described state; the machine's state decides, not the run's history."""

from __future__ import annotations

DOCUMENTATION = """
module: service_converge
short_description: Converge the files, credentials and running units of programs in one step
description:
  - Writes files that differ. Restarts (or reloads) if the digest of everything that the process
    depends on differs from the one recorded when it was last healthy. Waits until it is healthy,
    and records last. So the next run sees everything that a killed run left undone.
  - Roles call the action of the same name, which builds these arguments from the fields of
    hearth/render/programs.py. Without `secrets` the module only compares credentials with salted
    digests; if one differs, it changes nothing and returns `needs_secrets`.
author: Hearth
options:
  programs:
    description: "Programs in their order: fields of `Program` as its `arguments` returns them."
    type: list
    elements: dict
    required: true
  secrets: {description: "Program to its credentials: name to value.", type: dict}
"""

import contextlib
import grp
import hashlib
import hmac
import http
import http.client
import json
import os
import pwd
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

RECORDS = Path("/var/lib/hearth/converged")
CREDENTIALS = Path("/etc/hearth/credentials")
UNITS = Path("/etc/systemd/system")
USERS = Path("/etc/sysusers.d")
# Makes units of quadlets.
GENERATOR = "/usr/lib/systemd/system-generators/podman-system-generator"
COMMAND_LIMIT_S = 120
ANSWER_BYTES = 65536
LOOP = 5  # failed starts, after which a program does not come up by itself


class Trouble(Exception):
    """What went wrong, in one line for a person."""


def run(argv: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one local program with a time limit; `Trouble` with its last output line if it fails."""
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
    """Every file that the program needs, with its unit and its user; secrets are kept elsewhere."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.name = params["name"]
        self.files = [dict(file) for file in params["files"]]
        self.folders = list(params["folders"])
        if params["user"]:
            uid = params["uid"] if params["uid"] >= 0 else "-"
            line = f'u {params["user"]} {uid} "Hearth" -\n'
            self.files.insert(0, {"path": str(USERS / f"hearth-{self.name}.conf"), "content": line})
        if params["unit"]:
            self.files.append({"path": str(UNITS / unit_of(self.name)), "content": params["unit"]})


def unit_of(name: str) -> str:
    """Return the unit's full name; a name with its own suffix, such as `.timer`, is kept."""
    return name if name.endswith((".timer", ".path", ".socket")) else f"{name}.service"


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
    """Return the mode as a number."""
    return int(item.get("mode", default), 8)


def owner_of(item: dict[str, Any]) -> tuple[int, int]:
    """Return the ids of owner and group; -1 for a user not created yet (as in check mode)."""
    owner, group = item.get("owner", "root"), item.get("group") or item.get("owner", "root")
    # Ids of a container have no names here.
    if owner.isdigit() and group.isdigit():
        return int(owner), int(group)
    try:
        return pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid
    except KeyError:
        return -1, -1


def make_folder(item: dict[str, Any], write: bool) -> bool:
    """Make the folder or repair its mode and owner; return whether that was needed."""
    path, mode = Path(item["path"]), mode_of(item, "0755")
    if path.is_symlink():
        # The program may own it, and root would then give it whatever the link points to.
        raise Trouble(f"{path} is a link and must be a folder: remove it")
    try:
        stat = path.stat()
        same = (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid) == (mode, *owner_of(item))
    except FileNotFoundError:
        same = False
    if not same and write:
        path.mkdir(parents=True, exist_ok=True)
        if item.get("whole"):
            # Before the folder itself, so that a run after a kill repeats it.
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
    """Return where the new text of a file is written until it is complete."""
    return path.with_name(f".{path.name}.new")


def write_file(file: dict[str, Any]) -> None:
    """Replace one file atomically, after its checker has accepted the new text."""
    path = Path(file["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    name = str(fresh_name(path))
    try:
        # Because of the fixed name, a killed run's leftover is found and removed first.
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
        raise Trouble(f"{path} was not replaced, its checker rejected it: {error}") from None
    except OSError as error:
        raise Trouble(f"{path} was not replaced: {error.strerror}") from None
    finally:
        if os.path.lexists(name):
            os.unlink(name)


def diff_of(file: dict[str, Any]) -> dict[str, str]:
    """Return the text before and after, for `--diff`."""
    path = Path(file["path"])
    before = path.read_text(errors="replace") if path.is_file() else ""
    header = {"before_header": str(path), "after_header": str(path)}
    return {"before": before, "after": file["content"], **header}


def digest_of(desired: Desired, params: dict[str, Any], skip: set[str]) -> str:
    """Return one digest of all that the process depends on, except the paths in `skip`."""
    whole = hashlib.sha256()
    for file in sorted(desired.files, key=lambda item: item["path"]):
        if file["path"] not in skip:
            whole.update(f"{file['path']}\0{file['content']}\0".encode())
    secrets = [f"{CREDENTIALS}/{desired.name}/{key}" for key in params["credentials"]]
    for name in sorted([*params["watch"], *secrets]):
        whole.update(f"{name}\0{look_at(Path(name))}\0".encode())
    for command in params["observe"]:
        # Before the first run the program that prints it may still be missing (check mode).
        if shutil.which(str(command[0])) is None:
            continue
        whole.update(run([str(word) for word in command], check=False).stdout.encode())
    return whole.hexdigest()


def look_at(path: Path) -> str:
    """Return the target of a link, the digest of a file, or `nothing`."""
    if path.is_symlink():
        return os.readlink(path)
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return "a folder" if path.is_dir() else "nothing"


def recorded(name: str) -> str:
    """Return the digest of when the program was last healthy."""
    try:
        return str(json.loads((RECORDS / f"{name}.json").read_text())["digest"])
    except (OSError, ValueError, KeyError):
        return ""


def record(name: str, digest: str, files: list[dict[str, Any]], *, done: bool = True) -> None:
    """Record the present digest for the next run, and the list of our files for their removal.

    Once a run is `done` with a program, the record also holds the state of each file, by which
    `hearth doctor` finds later edits; until then it is marked as unfinished.
    """
    paths = sorted(file["path"] for file in files)
    states = {path: state_of(Path(path)) for path in paths} if done else {}
    RECORDS.mkdir(parents=True, exist_ok=True)
    more: dict[str, Any] = {"states": states} if done else {"unfinished": True}
    content = {"digest": digest, "at": int(time.time()), "files": paths, **more}
    write_file({"path": str(RECORDS / f"{name}.json"), "content": json.dumps(content) + "\n"})


def state_of(path: Path) -> str:
    """Return digest, mode and owner of a file, as hearth/machine/converged.py reads them."""
    stat = path.lstat()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{digest} {stat.st_mode & 0o7777:04o} {stat.st_uid}:{stat.st_gid}"


def is_done(name: str) -> bool:
    """Whether the last run was done with this program."""
    try:
        return "states" in json.loads((RECORDS / f"{name}.json").read_text())
    except (OSError, ValueError):
        return False


def unit_state(name: str) -> dict[str, str]:
    """Return the unit's properties: whether it runs, starts at boot, and matches its file."""
    shown = run(
        [
            "systemctl",
            "show",
            unit_of(name),
            "-p",
            "ActiveState,UnitFileState,NeedDaemonReload,ConditionResult,NRestarts,"
            "ConditionTimestampMonotonic",
        ],
        check=False,
    ).stdout
    return dict(line.partition("=")[::2] for line in shown.splitlines())


def healthy(health: dict[str, Any]) -> str:
    """Check once; return the empty text if healthy, otherwise what was observed."""
    if "command" in health:
        result = run(health["command"], check=False)
        return "" if result.returncode == 0 else f"exit code {result.returncode}"
    if "dns_name" in health:
        return answered(health["dns_name"], health["dns_server"])
    try:
        # The address is inside the house, so a proxy of the machine must not be used.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), AsSent)
        with opener.open(health["url"], timeout=health["within_s"]) as answer:
            if answer.status != http.HTTPStatus.OK:
                return f"HTTP {answer.status}"
            text = read_within(answer, health["within_s"]).decode(errors="replace")
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error))
    return "" if health["contains"] in text else f"an answer without {health['contains']!r}"


class AsSent(urllib.request.HTTPErrorProcessor):
    """Return each response as it was sent: no redirect is followed, and no status is an error."""

    def http_response(self, request: Any, response: Any) -> Any:
        """Return the response."""
        return response


def read_within(answer: Any, within_s: float) -> bytes:
    """Read the start of a response by a deadline; a timeout alone would allow endless dripping."""
    end, text = time.monotonic() + within_s, b""
    while (piece := answer.read1(8192)) and len(text) < ANSWER_BYTES:
        text += piece
        if time.monotonic() > end:
            raise OSError(f"no complete answer in {within_s:g} s")
    return text


def answered(name: str, server: str) -> str:
    """Query a resolver for one IPv4 address; return the empty text if it has one."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = b"HE\x01\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(2)
        try:
            link.sendto(question, (server, 53))
            reply = link.recv(512)
        except OSError as error:
            return str(error)
    # Bytes 6 and 7 of a DNS message count the answers (RFC 1035, 4.1.1).
    return "" if reply[:2] == b"HE" and reply[7] else f"no address for {name}"


def wait_healthy(name: str, health: dict[str, Any]) -> None:
    """Wait until the program is healthy; `Trouble` with its last output otherwise."""
    start, before = time.monotonic(), restarts(unit_state(name))
    while seen := healthy(health):
        now = unit_state(name)
        state = now.get("ActiveState")
        waited, ends = time.monotonic() - start, restarts(now) - before
        if waited > health["ready_s"]:
            raise unhealthy(name, f"is not healthy after {health['ready_s']:g} s ({seen}; {state})")
        # Waiting is useless if it ends as often as it is started.
        if state == "failed" or ends >= LOOP:
            raise unhealthy(name, f"ended {ends + 1} times in {waited:.0f} s ({seen})")
        time.sleep(0.3)


def restarts(state: dict[str, str]) -> int:
    """Return how often systemd has restarted the program since its last start by hand."""
    count = state.get("NRestarts", "")
    return int(count) if count.isdigit() else 0


def unhealthy(name: str, what: str) -> Trouble:
    """Return the error, with the program's last output."""
    # The journal has the reason; a person should not have to look for it.
    lines = run(
        ["journalctl", "-u", unit_of(name), "-n", "15", "-o", "cat", "--no-pager"],
        check=False,
    ).stdout
    return Trouble(f"{name} {what}; its last log lines:\n{lines}")


def make_user(desired: Desired, user: str) -> list[str]:
    """Create the program's user if it is missing; return the path of its record if written."""
    if not user:
        return []
    file = desired.files[0]
    wrote = differs(file)
    if wrote:
        write_file(file)
    # A run killed at this point leaves the record without the user.
    if wrote or owner_of({"owner": user}) == (-1, -1):
        run(["systemd-sysusers", file["path"]])
    return [file["path"]] if wrote else []


def stale_credentials(name: str, params: dict[str, Any]) -> list[Path]:
    """Return secret files of earlier runs that no unit loads any more."""
    if params["files_only"]:
        # Another role has the unit, and its credentials.
        return []
    wanted = params["credentials"]
    return sorted(path for path in (CREDENTIALS / name).glob("*") if path.name not in wanted)


def differing_credentials(params: dict[str, Any]) -> list[Path]:
    """Return credentials that hold another value, or that users besides root can read."""
    folder = CREDENTIALS / params["name"]
    return [
        folder / key
        for key, digest in params["credentials"].items()
        if not holds(folder / key, digest)
    ]


def holds(path: Path, digest: str) -> bool:
    """Whether the file holds the value of a salted digest and only root can read it."""
    salt, _, wanted = digest.partition(":")
    try:
        stat = path.lstat()
        found = hmac.new(salt.encode(), path.read_bytes(), "sha256").hexdigest()
    except OSError:
        return False
    closed = (stat.st_mode & 0o7777, stat.st_uid) == (0o400, 0)
    return found == wanted and closed and not path.is_symlink()


def write_credentials(paths: list[Path], name: str, values: dict[str, str]) -> None:
    """Write secrets where only systemd reads them."""
    folder = CREDENTIALS / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    # Without a record the program is restarted, even if this run is killed here.
    (RECORDS / f"{name}.json").unlink(missing_ok=True)
    for path in paths:
        write_file({"path": str(path), "content": values[path.name], "mode": "0400"})


def still_true(files: list[dict[str, Any]], params: dict[str, Any]) -> str:
    """Return the part of the last record that is still valid although these files differ.

    The program may have been started with the differing files, so their part is dropped.
    """
    before = recorded(params["name"])
    if not files:
        return before
    own = {file["path"] for file in params["files"]}
    return "/" + before.partition("/")[2] if all(file["path"] in own for file in files) else ""


def converge(
    params: dict[str, Any], *, write: bool, diff: bool, secrets: dict[str, str]
) -> dict[str, Any]:
    """Converge one program; return `changed`, the action taken and the files written."""
    desired = Desired(params)
    name = desired.name
    differing = differing_credentials(params)
    if write and differing:
        write_credentials(differing, name, secrets)
    user = make_user(desired, params["user"]) if write else []
    folders = [item["path"] for item in desired.folders if make_folder(item, write)]
    files = [file for file in desired.files if differs(file)]
    diffs = [diff_of(file) for file in files] if diff else []
    before, stale = still_true(files, params), stale_credentials(name, params)
    if write:
        write_files(desired, files, before)
        for path in stale:
            path.unlink()
    wrote = user + [file["path"] for file in files]
    action = "restart" if differing else next_action(desired, params, before)
    if write and action:
        act(name, action, params)
    if write and (action or not is_done(name)):
        record(name, wanted_record(desired, params) if action else before, desired.files)
    did = [f"make {path}" for path in folders] + [f"write {path}" for path in [*differing, *wrote]]
    did += [f"remove {path}" for path in stale] + ([f"{action} {name}"] if action else [])
    touched = folders + wrote + [str(path) for path in stale]
    return {"changed": bool(did), "action": action, "files": touched, "did": did, "diff": diffs}


def write_files(desired: Desired, files: list[dict[str, Any]], before: str) -> None:
    """Write the files that differ, and remove a killed run's leftovers beside any."""
    if files:
        # First of all: if this run is killed, the next one finds no difference in the files.
        record(desired.name, before, desired.files, done=False)
    for file in files:
        write_file(file)
    # Its file may be correct again by now, so no run would write it.
    for file in desired.files:
        fresh_name(Path(file["path"])).unlink(missing_ok=True)


def converge_all(
    programs: list[dict[str, Any]], *, write: bool, diff: bool, secrets: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """Converge the programs in order, up to the first failure."""
    if shutil.which("systemctl") is None:
        raise Trouble("systemd does not run here, and this part of a house needs it")
    if write and not secrets and any(differing_credentials(params) for params in programs):
        return {"changed": False, "needs_secrets": True}
    done: dict[str, Any] = {"changed": False, "did": [], "diff": []}
    for params in programs:
        result = converge(params, write=write, diff=diff, secrets=secrets.get(params["name"], {}))
        done["changed"] |= result["changed"]
        done["did"] += result["did"]
        done["diff"] += result["diff"]
    return done


def wanted_record(desired: Desired, params: dict[str, Any]) -> str:
    """Return `WHOLE/PROCESS`: digests of everything, and of what a reload does not cover."""
    own = {file["path"] for file in params["files"]} if params["reloads"] else set()
    return f"{digest_of(desired, params, set())}/{digest_of(desired, params, own)}"


def next_action(desired: Desired, params: dict[str, Any], before: str) -> str:
    """Return the action needed: restart, reload, start, stop, enable, or none."""
    if params["files_only"]:
        return ""
    now = wanted_record(desired, params)
    state = unit_state(desired.name)
    if params["stopped"]:
        off = state.get("ActiveState") != "active" and state.get("UnitFileState") != "enabled"
        return "" if off and before == now else "stop"
    if before != now:
        alive = state.get("ActiveState") == "active"
        only_files = params["reloads"] and before.partition("/")[2] == now.partition("/")[2]
        return "reload" if alive and only_files else "restart"
    # systemd itself skips some units where they cannot work (sysctl in a container). Of a unit that
    # never started, it has not looked at the conditions yet.
    looked = state.get("ConditionTimestampMonotonic", "0") != "0"
    skipped = looked and state.get("ConditionResult") == "no"
    if state.get("ActiveState") != "active" and not skipped:
        return "start"
    # A unit that is started by its socket, such as Debian's Incus, is `indirect`.
    if params["enabled"] and state.get("UnitFileState") not in ("enabled", "indirect"):
        return "enable"
    return "daemon-reload" if state.get("NeedDaemonReload") == "yes" else ""


def act(name: str, action: str, params: dict[str, Any]) -> None:
    """Carry the action out and wait until the program is healthy."""
    unit = unit_of(name)
    run(["systemctl", "daemon-reload"])
    if action == "stop":
        run(["systemctl", "disable", "--now", "--quiet", unit])
        return
    if params["enabled"]:
        run(["systemctl", "enable", "--quiet", unit])
    if action in ("restart", "start"):
        # A unit that reached its start limit would not start with a good configuration either.
        run(["systemctl", "reset-failed", unit], check=False)
    if params.get("notifies") and action in ("restart", "start"):
        check_generated(unit)
        # systemctl would wait for the program, and could not report why it is not healthy. Without
        # the stop, the process from before would answer for the new one.
        run(["systemctl", "stop", unit])
        run(["systemctl", "start", "--no-block", unit])
    elif action in ("restart", "reload", "start"):
        run(["systemctl", action, unit])
    if params["health"]:
        wait_healthy(name, params["health"])


def check_generated(unit: str) -> None:
    """Reject a quadlet of which Podman makes no unit; `Trouble` with its reason."""
    if run(["systemctl", "show", unit, "-p", "LoadState", "--value"]).stdout.strip() == "loaded":
        return
    said = run([GENERATOR, "--dryrun"], check=False).stderr.splitlines()
    why = [line for line in said if "converting" in line or "error" in line.lower()]
    raise Trouble(f"{unit} was not made from its quadlet: {(why or said or ['no reason'])[-1]}")


def main() -> None:
    """Read the arguments, converge, and return the result."""
    module = AnsibleModule(
        argument_spec={
            "programs": {"type": "list", "elements": "dict", "required": True},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        result = converge_all(
            params["programs"],
            write=not module.check_mode,
            diff=module._diff,
            secrets=params["secrets"],
        )
    except Trouble as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
