"""Which device is asking, and what its maker wants done there."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from string import Template

_GUIDES = files("hearth_trust") / "page" / "guides"


@dataclass(frozen=True, slots=True)
class Device:
    """One kind of device: its name for people, and the words by which its browsers are known."""

    key: str
    title: str
    known_by: str


# In the order in which they are shown. What calls itself a Mac may be an iPad, too: the page looks.
DEVICES = (
    Device("ios", "iPhone, iPad", r"iPhone|iPad|iPod"),
    Device("android", "Android", r"Android"),
    Device("windows", "Windows", r"Windows NT"),
    Device("macos", "Mac", r"Macintosh"),
    Device("linux", "Linux", r"^(?!.*Android).*(Linux|X11)"),
    Device("firefox", "Firefox, anywhere", r"Firefox/|FxiOS/"),
)


def asking(user_agent: str) -> frozenset[str]:
    """Return the keys of the guides that a browser's device needs; none for an unknown one."""
    return frozenset(one.key for one in DEVICES if re.search(one.known_by, user_agent))


def guides(user_agent: str, values: dict[str, str]) -> Iterator[str]:
    """Yield each guide as HTML, open for the device that asks, the others below it."""
    wanted = asking(user_agent)
    for one in sorted(DEVICES, key=lambda device: device.key not in wanted):
        text = Template((_GUIDES / f"{one.key}.html").read_text(encoding="utf-8"))
        opened = " open" if one.key in wanted else ""
        yield (
            f'<details id="{one.key}"{opened}><summary>{one.title}</summary>\n'
            f"{text.substitute(values)}</details>"
        )
