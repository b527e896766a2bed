"""Run the preparation: `python3 -m hearth_init --config FILE`; it ends when all is there.

With `--show NAME` it prints one secret, or `root.crt`, instead.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hearth.files import LockHeldError, locked, write_atomic
from hearth.machine.pki import PkiError, ensure_authority
from hearth.machine.secrets import SecretsError, make_random
from hearth.render.programs import Program, credential_values

_VAULT = "secrets.json"
_ROOT = "root.crt"


class InitError(Exception):
    """One line for a person: what is missing or damaged, and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare everything; return 1 with one line on stderr if that is not possible."""
    options = _parser().parse_args(argv)
    try:
        with locked(options.secrets / ".lock"):
            if options.show:
                print(shown(read_secrets(options.secrets), options.show))
            else:
                config = json.loads(options.config.read_text(encoding="utf-8"))
                made = prepare(config, options)
                print(f"made {', '.join(made) if made else 'nothing: all was there'}")
    except (InitError, PkiError, SecretsError, LockHeldError) as error:
        print(f"hearth-init: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"hearth-init: {error.filename}: {error.strerror}: make room", file=sys.stderr)
        return 1
    return 0


def prepare(config: Mapping[str, Any], options: argparse.Namespace) -> list[str]:
    """Make what is missing and write what each container reads; return what was made."""
    values = read_secrets(options.secrets)
    made = [name for name in sorted(config["secrets"]) if name not in values]
    values |= {name: make_random(name) for name in made}
    authority, did = ensure_authority(values, config["domain"], datetime.now(UTC))
    values |= authority.as_secrets()
    if did != "kept":
        made.append(f"certificate authority ({did})")
    if made:
        write_atomic(options.secrets / _VAULT, json.dumps(values).encode(), 0o600)
    for name, public in (
        (_ROOT, authority.root_cert_pem),
        ("intermediate.crt", authority.intermediate_cert_pem),
    ):
        write(options.pki / name, public, 0o444, config["uid"])
    for owner, wanted in config["credentials"].items():
        program = Program(owner, credentials=wanted["values"], digests=wanted["digests"])
        for name, value in credential_values(program, values).items():
            write(options.credentials / owner / name, value, 0o400, config["uid"])
    return made


def write(path: Path, text: str, mode: int, uid: int) -> None:
    """Write a file for the user `uid` if it differs."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    write_atomic(path, text.encode(), mode)
    os.chown(path, uid, uid)


def read_secrets(folder: Path) -> dict[str, str]:
    """Return the secrets of earlier runs."""
    try:
        found = json.loads((folder / _VAULT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InitError(
            f"{folder / _VAULT}: it is damaged: put the volume `secrets` back from a backup, or "
            "remove the house's volumes, which makes every secret again"
        )
    return found


def shown(values: Mapping[str, str], name: str) -> str:
    """Return a secret, or the certificate that devices install."""
    name = "house_root_cert" if name == _ROOT else name
    if name not in values:
        raise InitError(f"{name}: there is no secret of this name; there are {', '.join(values)}")
    return values[name].strip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hearth_init", description="Prepares a house.")
    parser.add_argument("--config", type=Path, required=True, help="what the house needs, as JSON")
    parser.add_argument("--show", metavar="NAME", help="print a secret, or root.crt")
    for name, place in (
        ("secrets", "/var/lib/hearth/secrets"),
        ("credentials", "/var/lib/hearth/credentials"),
        ("pki", "/var/lib/hearth/pki"),
    ):
        parser.add_argument(f"--{name}", type=Path, default=place, help="default %(default)s")
    return parser


if __name__ == "__main__":
    sys.exit(main())
