"""The page that listens, for people: one document, and the files that it is made of."""

from pathlib import Path

from starlette.routing import Route

from hearth_serving.page import page_routes

FOLDER = Path(__file__).parent
LATER = frozenset(["grinder.mjs", "worklet.mjs"])
"""What is loaded where the microphone's sound is, and not with the document."""


def routes(*, key_wanted: bool) -> list[Route]:
    """Return where the page and its files are; it asks for a key where the server wants one."""
    return page_routes(FOLDER, {"key_wanted": "yes" if key_wanted else "no"}, LATER)
