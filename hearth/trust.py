"""How a device comes to trust this house: where its page of trust is, and how its root looks."""

from io import StringIO

import segno

from hearth import pki
from hearth.catalogue.house import House
from hearth.house.facts import FactsError
from hearth.project import ROOT_CERTIFICATE
from hearth.verify.edge import front_door


def ways(house: House) -> list[str]:
    """Return where the page of trust answers, the address that needs no names first."""
    named = [f"http://{site.fqdn}/" for site in house.sites if site.plain]
    if not named:
        return []
    try:
        return [f"http://{front_door(house).address}/", *named]
    except FactsError:
        # A machine without its wire: the name will do again when it is back.
        return named


def fingerprint() -> str:
    """Return the root's SHA-256 as devices show it; empty where there is none yet."""
    try:
        return pki.fingerprint(ROOT_CERTIFICATE.read_text(encoding="ascii"))
    except (OSError, ValueError, pki.PkiError):
        return ""


def code(address: str) -> str:
    """Return a QR code for a terminal, in half blocks, to be photographed with a phone."""
    drawn = StringIO()
    # Micro codes are smaller, and phones do not read them.
    segno.make(address, micro=False).terminal(drawn, compact=True, border=2)
    return drawn.getvalue()
