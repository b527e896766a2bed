#!/usr/bin/python
"""Write the secrets of one program where systemd hands them to it and to nobody else."""

from __future__ import annotations

DOCUMENTATION = """
module: service_credentials
short_description: Write the credentials of one unit
description: Each secret becomes one 0400 file under /etc/hearth/credentials/NAME, from where
  LoadCredential takes it; files that nobody asks for any more go. A step of its own, so that
  secrets stay out of the diff and the log of everything else.
author: Hearth
options:
  name: {description: Name of the unit without `.service`., type: str, required: true}
  credentials: {description: Name to value., type: dict, required: true}
"""

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

FOLDER = Path("/etc/hearth/credentials")
RECORDS = Path("/var/lib/hearth/converged")


def is_right(path: Path, value: str) -> bool:
    """Whether the file holds the value and only root can read it."""
    try:
        stat = path.lstat()
        same = path.read_bytes() == value.encode()
    except OSError:
        return False
    return same and not path.is_symlink() and (stat.st_mode & 0o7777, stat.st_uid) == (0o400, 0)


def write(path: Path, value: str) -> None:
    """Replace the file at once; at no moment can anybody else read it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(handle, "wb") as stream:
        stream.write(value.encode())
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)


def main() -> None:
    """Write what differs and remove what is left over; the answer holds names only."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "credentials": {"type": "dict", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    folder = FOLDER / module.params["name"]
    wanted = {key: str(value) for key, value in module.params["credentials"].items()}
    stale = [path for path in folder.glob("*") if path.name not in wanted]
    differing = [key for key, value in wanted.items() if not is_right(folder / key, value)]
    if not module.check_mode:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if differing:
            # service_converge restarts what has no record: also when this run is killed before it.
            (RECORDS / f"{module.params['name']}.json").unlink(missing_ok=True)
        for key in differing:
            write(folder / key, wanted[key])
        for path in stale:
            path.unlink()
    module.exit_json(
        changed=bool(differing or stale), written=differing, removed=[path.name for path in stale]
    )


if __name__ == "__main__":
    main()
