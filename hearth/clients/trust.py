"""How a device comes to trust this house: its page, its root, and how long both are valid."""

from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path

import segno

from hearth.catalogue.house import House
from hearth.clients.edge import house_edge
from hearth.machine import pki
from hearth.machine.facts import FactsError
from hearth.paths import ROOT_CERTIFICATE

# `hearth up` makes a new root in its last thirty days, and an intermediate long before that.
_SOON = timedelta(days=30)
_RENEWED = {
    "root": "`hearth up` makes a new one, which every device must install",
    "intermediate": "`hearth up` renews it, and devices need no change",
}


def addresses(house: House) -> list[str]:
    """Return the addresses of the trust page, first the one that needs no DNS."""
    named = [f"http://{site.fqdn}/" for site in house.sites if site.plain]
    if not named:
        return []
    try:
        return [f"http://{house_edge(house).address}/", *named]
    except FactsError:
        # A machine without a link: the name works again when the link is back.
        return named


def fingerprint() -> str:
    """Return the root's SHA-256 as devices show it; empty where there is none yet."""
    try:
        return pki.fingerprint(ROOT_CERTIFICATE.read_text(encoding="ascii"))
    except (OSError, ValueError, pki.PkiError):
        return ""


def validity(now: datetime, folder: Path = ROOT_CERTIFICATE.parent) -> tuple[bool, str]:
    """Return whether root and intermediate are valid, and until when, or what to do."""
    ends = {}
    for name, renewed in _RENEWED.items():
        path = folder / f"{name}.crt"
        try:
            ends[name] = pki.not_after(path.read_text(encoding="ascii"))
        except (OSError, ValueError, pki.PkiError):
            return False, f"{path} cannot be read: `hearth up` writes it"
        left = ends[name] - now
        if left < _SOON:
            when = f"ends in {left.days} days" if left > timedelta(0) else "has ended"
            return False, f"the {name} {when}: {renewed}"
    return True, f"good until {min(ends.values()):%Y-%m-%d}"


def qr_code(address: str) -> str:
    """Return a QR code for a terminal, in half blocks, to be photographed with a phone."""
    drawn = StringIO()
    # Micro codes are smaller, and phones do not read them.
    segno.make(address, micro=False).terminal(drawn, compact=True, border=2)
    return drawn.getvalue()
