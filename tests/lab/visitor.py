"""A guest of the house with two real browsers, which trust the house as a person's would."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from tests import lab_machine as lab
from tests.lab.house import GUEST, NAME, ROOT, House
from tests.npm import modules

PACKAGES = (
    *("chromium", "chromium-sandbox", "firefox-esr", "fonts-dejavu-core", "libnss3-tools"),
    *("nodejs", "pulseaudio"),
)
# The house's root on the guest: only the browsers are told to trust it.
ROOT_THERE = "/srv/house.crt"
DRIVER = ROOT / "tests/browser"
ARTEFACTS = ROOT / ".hearth/artefacts/browser"
VISIT_S = 900
_CACHE = Path("/var/cache/hearth-lab/browser")
_DRIVER_THERE, _FOLDER_THERE = "/srv/browser", "/home/visitor/found"
RUNTIME = "/run/visitor"
# Chromium takes the certificates of the person's own store. Firefox has a store in each profile,
# and takes those that a policy names. Without a sound device no browser plays anything.
_FURNISH = f"""
useradd --create-home visitor
install -d -o visitor /home/visitor/.pki/nssdb
runuser -u visitor -- certutil -N --empty-password -d sql:/home/visitor/.pki/nssdb
runuser -u visitor -- certutil -A -n house -t C,, -i {ROOT_THERE} -d sql:/home/visitor/.pki/nssdb
install -d /etc/firefox/policies
cat > /etc/firefox/policies/policies.json <<'EOF'
{{"policies": {{"Certificates": {{"Install": ["{ROOT_THERE}"]}}}}}}
EOF
systemd-run --quiet --unit=sound --uid=visitor --property=RuntimeDirectory=visitor \\
  --setenv=XDG_RUNTIME_DIR={RUNTIME} --setenv=HOME=/home/visitor \\
  pulseaudio --exit-idle-time=-1 -n -L module-null-sink -L module-native-protocol-unix
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """The result of one scene, or the reason why it broke off."""

    seconds: float
    found: Any = None
    error: str | None = None


@dataclass(slots=True)
class Visit:
    """All results of one browser, and what the server did meanwhile."""

    browser: str
    scenes: dict[str, Scene]
    folder: Path
    active: list[tuple[float, int]] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        """Return the result of a scene; if it broke off, fail the test with its reason."""
        scene = self.scenes.get(name)
        assert scene, f"{self.browser} never came to the scene {name!r}"
        assert scene.error is None, f"{self.browser}, {name}: {scene.error}"
        return scene.found

    def fits_a_phone(self) -> None:
        """Check that a phone 320 pixels wide shows all of the page, and nothing too small."""
        found = self["phone"]
        assert found["inner"] == 320
        assert found["wide"] <= found["inner"]
        assert (found["sticking_out"], found["too_small"]) == ([], [])

    def is_light_and_dark(self) -> None:
        """Check how bright ground and text look by day and by night, from 0 to 1."""
        day, night = self["light pictures"], self["dark pictures"]
        assert day["ground"] > 0.8 > 0.3 > day["text"]
        assert night["ground"] < 0.2 < 0.7 < night["text"]
        for name in day["names"] + night["names"]:
            assert (self.folder / name).stat().st_size > 10_000

    def is_accessible(self, scene: str) -> None:
        """Check what axe found in a scene."""
        assert self[scene]["passed"] > 10
        assert self[scene]["serious"] == []


def invite(house: House) -> str:
    """Return the name of the guest on the house's LAN; it is created when it is missing."""
    if GUEST not in {machine.name for machine in lab.load_all()}:
        lab.create(GUEST, guest_of=NAME, packages=PACKAGES)
        lab.copy_in(GUEST, house.folder / "root.crt", ROOT_THERE)
        lab.run(GUEST, ["/bin/bash", "-euc", _FURNISH], timeout=60, check=True)
        lab.copy_in(
            GUEST, modules(DRIVER, _CACHE) / "node_modules", f"{_DRIVER_THERE}/node_modules"
        )
    # Small, and with the packages that a desktop has.
    lab.copy_in(GUEST, DRIVER, _DRIVER_THERE, exclude=["node_modules"])
    return GUEST


@dataclass(slots=True)
class Errands:
    """Performs the actions outside the browser that a scene requests, as its output arrives."""

    guest: str
    actions: Mapping[str, Callable[[], object]]
    rest: bytes = b""

    def take(self, data: bytes) -> None:
        """Perform what complete lines request; write the result where the scene waits for it."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b'{"action"'):
                request = json.loads(line)
                result = json.dumps(self._do(request["action"]))
                # In one rename: the scene reads it as soon as it exists.
                put = 'cat > "$0.new" && chmod 644 "$0.new" && mv "$0.new" "$0"'
                argv = ["/bin/sh", "-c", put, request["reply"]]
                lab.run(self.guest, argv, stdin=result, check=True)

    def _do(self, name: str) -> object:
        # The scene waits for a result; with an error it breaks off and reports the reason.
        try:
            return {"done": self.actions[name]()}
        except Exception as error:
            return {"failed": f"{type(error).__name__}: {error}"}


class _Lines(BytesIO):
    """Passes each write on at once."""

    def __init__(self, errands: Errands) -> None:
        super().__init__()
        self._errands = errands

    def write(self, data: Any) -> int:
        self._errands.take(bytes(data))
        return super().write(data)


def visit(
    guest: str,
    browser: str,
    play: str,
    page: str,
    password: str = "",
    *,
    home: str = "/home/visitor",
    actions: Mapping[str, Callable[[], object]] | None = None,
    within_s: float = VISIT_S,
    **more: Any,
) -> Visit:
    """Play a browser's scenes on the guest; return the results, with the screenshots copied here.

    `actions` are the actions that scenes may request meanwhile, by name. `home` is the folder with
    Chromium's certificate store: any other than the visitor's is empty.
    """
    folder = f"{_FOLDER_THERE}/{play}/{browser}"
    known = {"browser": browser, "play": play, "page": page, "folder": folder}
    job: dict[str, Any] = {**known, "password": password, **more}
    if only := os.environ.get("HEARTH_SCENES"):
        job["only"] = only.split(",")
    settings = [f"HOME={home}", f"XDG_RUNTIME_DIR={RUNTIME}", "TMPDIR=/tmp"]
    argv = ["runuser", "-u", "visitor", "--", "env", "--chdir=/home/visitor", *settings]
    argv += ["node", f"{_DRIVER_THERE}/main.mjs"]
    stream = _Lines(Errands(guest, actions or {}))
    done = lab.run(guest, argv, stdin=json.dumps(job), timeout=within_s, stream_to=stream)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"scene"')]
    assert done.returncode == 0, f"{browser}: {done.stdout[-4000:]}"
    target = ARTEFACTS / play / browser
    shutil.rmtree(target, ignore_errors=True)
    lab.copy_out(guest, folder, target)
    (target / "found.json").write_text(json.dumps(lines, indent=1) + "\n")
    scenes = {
        line["scene"]: Scene(line["seconds"], line.get("found"), line.get("error"))
        for line in lines
    }
    for name, scene in scenes.items():
        print(f"{scene.seconds:8.1f} s  {browser}: {name}", flush=True)
    return Visit(browser, scenes, target)
