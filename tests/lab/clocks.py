"""Set the clock of one process days off, with Debian's libfaketime in front of its program.

It affects programs that read the time from the C library: Python, curl. Caddy and Ollama are Go,
which reads it from the kernel itself. llama.cpp's server reads no date.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.lab.breaking import Unit
from tests.lab.house import House

PACKAGE = "libfaketime"
LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
# Readable for every unit in any sandbox, and gone with the next start.
PLACE = "/run/clock-off"
# The library reads its file once a second, and a server computes its Date header once a second.
SEEN_S = 3
# The clock may jump while the program runs. The monotonic clock goes on, as it does on a machine
# whose date is set. Without shared memory each process needs nothing but the file.
DROP_IN = f"""[Service]
Environment=LD_PRELOAD={PLACE}/libfaketime.so.1 FAKETIME_TIMESTAMP_FILE={PLACE}/now
Environment=FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1
"""
# For an instance of an older Debian, whose C library is older: the package of that release, from
# the same mirror as the machine's, unpacked and not installed.
OLDER = """
cd "$(mktemp -d)"; mkdir -p lists/partial
sed "s/$(. /etc/os-release; echo $VERSION_CODENAME)/$0/" /etc/apt/sources.list > old.list
apt="apt-get --quiet --quiet -o Dir::Etc::sourcelist=$PWD/old.list -o Dir::Etc::sourceparts=-"
$apt -o Dir::State::lists="$PWD/lists" update >&2
$apt -o Dir::State::lists="$PWD/lists" download "libfaketime/$0" >&2
dpkg-deb --extract libfaketime_*.deb .; rm -rf lists
echo "$PWD"
"""


@contextmanager
def installed(house: House) -> Iterator[None]:
    """Install Debian's libfaketime on the machine for a while."""
    apt = "DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes"
    house.shell(f"{apt} install --no-install-recommends {PACKAGE}")
    try:
        yield
    finally:
        house.shell(f"{apt} purge {PACKAGE}")


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of one unit."""

    house: House
    unit: Unit

    def off_by(self, days: int) -> None:
        """Set the clock while the program runs; return when the program uses it."""
        self.shell(f"echo {days:+}d > {PLACE}/now.new; mv {PLACE}/now.new {PLACE}/now")
        time.sleep(SEEN_S)

    def shell(self, script: str) -> str:
        """Run a script where the unit runs."""
        if self.unit.instance:
            script = f"incus exec {self.unit.instance} -- /bin/sh -ec '{script}' </dev/null"
        return self.house.shell(script)


@contextmanager
def clock_of(house: House, name: str) -> Iterator[Clock]:
    """Start a unit with a clock that can be set wrong; restart it without one at the end."""
    clock = Clock(house, Unit(name))
    folder = f"/run/systemd/system/{clock.unit.service}.service.d"
    again = f"systemctl daemon-reload; systemctl restart {clock.unit.service}.service"
    clock.shell(f"mkdir -p {PLACE} {folder}; echo +0 > {PLACE}/now")
    try:
        hand_in(clock)
        clock.shell(f'printf "%s" "{DROP_IN}" > {folder}/clock.conf; {again}')
        house.wait_green()
        yield clock
    finally:
        clock.shell(f"rm -rf {folder} {PLACE}; {again}")
        house.wait_green()


def hand_in(clock: Clock) -> None:
    """Copy the library to where the unit runs, in the build for the C library there."""
    into, here = f"{PLACE}/libfaketime.so.1", clock.unit.instance
    if not here:
        clock.house.shell(f"cp {LIBRARY} {into}")
        return
    release = ". /etc/os-release; echo $VERSION_CODENAME"
    there, machine = clock.shell(release).strip(), clock.house.shell(release).strip()
    made = ""
    if there != machine:
        made = clock.house.inside("/bin/bash", "-euc", OLDER, there, check=True).stdout.strip()
    script = f'incus exec {here} -- /bin/sh -c "cat > {into}" < {made}{LIBRARY}'
    clock.house.shell(f"{script}; {f'rm -rf {made}' if made else ':'}")
