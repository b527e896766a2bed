"""One change of a house that touches much of it, made and reverted in turn.

It gives the firewall a rule, the resolver and the reverse proxy a name, an instance another limit,
and the gateway another deadline.
"""

from tests import lab_machine as lab
from tests.lab.house import CLONE, ROOT

_SETTINGS = ROOT / "tests/lab/inventory"
_MORE = {
    "aliases.yml": "  fast: {timeout_s: 77}\n",
    "services.yml": (
        "    limits: {memory: 1900MiB, tasks: 512}\n"
        "  whisper:\n"
        "    publish: {ears: {auth: key, paths: [/v1/models]}}\n"
        "    publish_tcp: {10300: [10.99.3.77]}\n"
    ),
}


def make(machine: str, *, changed: bool) -> None:
    """Write the settings of a lab's house with the change, or without it."""
    for name, more in _MORE.items():
        text = (_SETTINGS / name).read_text(encoding="utf-8") + (more if changed else "")
        put = ["/usr/bin/install", "-m", "644", "/dev/stdin", f"{CLONE}/inventory/local/{name}"]
        lab.run(machine, put, stdin=text, check=True)
