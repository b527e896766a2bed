"""One checkout of Hearth, and the house that its inventory describes."""

import functools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.catalogue import Catalogue, House, derive, load
from hearth.machine import compose
from hearth.machine.facts import graphics
from hearth.machine.secrets import Vault
from hearth.paths import COMPOSE, FORM
from hearth.render.containers import contained, reached_at

# The key that the smoke tests and benchmarks use: it may call every model.
VERIFIER = "consumer_hearth_verify"


class ProjectError(Exception):
    """One line for a person: why there is no project to work on."""


@dataclass(frozen=True, slots=True)
class Project:
    """One checkout: its inventory, and its own state that git does not see."""

    root: Path

    @property
    def inventory(self) -> Path:
        """The folder that people edit."""
        return self.root / "inventory"

    @property
    def logs(self) -> Path:
        """The folder of full logs, made on first use."""
        folder = self.root / ".hearth" / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def uv(self) -> Path:
        """The uv that scripts/environment installed, or else that of this machine."""
        brought = self.root / ".hearth" / "uv" / "bin" / "uv"
        return brought if brought.exists() else Path(shutil.which("uv") or "uv")

    @property
    def vault(self) -> Vault:
        """The house's secrets; of a house of containers, a copy of those that it has made."""
        password_file = Path.home() / ".config/hearth/vault-password"
        if FORM:
            return Vault(COMPOSE / "secrets.yml", password_file.with_name("compose-password"))
        return Vault(self.inventory / "secrets.yml", password_file)

    def catalogue(self) -> Catalogue:
        """Return the validated inventory, or raise `CatalogueError` with all problems."""
        return load(self.inventory)

    def house(self) -> House:
        """Return everything that follows from the inventory, the secrets and this machine's GPU."""
        house = derive(self.catalogue(), self.vault.names(), graphics().has)
        return reached_at(contained(house), compose.addresses()) if FORM else house

    def events(
        self,
        argv: Sequence[str],
        log: Path,
        more: Mapping[str, str],
        limit_s: float | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Run a command here, with its output in a log; yield its events, and its exit code last.

        After `limit_s` seconds it is killed.
        It writes each event as a line of JSON to the descriptor `{fd}`, which stands in `argv` or
        in `more`, its additional environment.
        """
        reader, writer = os.pipe()
        more = {"HEARTH_PROJECT": str(self.root), **more}
        with log.open("wb") as output, os.fdopen(reader, encoding="utf-8") as events:
            process = subprocess.Popen(  # noqa: S603 - our own programs
                [word.replace("{fd}", str(writer)) for word in argv],
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
                env={**os.environ, **{k: v.replace("{fd}", str(writer)) for k, v in more.items()}},
            )
            os.close(writer)
            late = threading.Timer(limit_s or 0, process.kill)
            late.daemon = True
            if limit_s:
                late.start()
            try:
                for line in events:
                    yield json.loads(line)
                yield {"kind": "end", "code": process.wait()}
            finally:
                late.cancel()
                # A caller that stops reading also stops the command.
                process.terminate()
                process.wait()


@functools.lru_cache(maxsize=1)
def current() -> Project:
    """Return the checkout that `HEARTH_PROJECT` names, or else the one of this package.

    Raises:
        ProjectError: there is no checkout.
    """
    named = os.environ.get("HEARTH_PROJECT")
    root = Path(named) if named else Path(__file__).resolve().parent.parent
    if not (root / "inventory").is_dir():
        raise ProjectError(
            f"{root}: no folder `inventory` here: set HEARTH_PROJECT to a checkout of Hearth"
        )
    return Project(root)
