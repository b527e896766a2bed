"""What a lab's phone reads from the messages of alerts, as ntfy delivered them."""

from __future__ import annotations

import pytest

from tests.lab.shown import read

LINK = "https://home.lan/findings/"


@pytest.mark.parametrize(
    ("title", "text", "wanted"),
    [
        (
            "A program hangs",
            f"kokoro\nResolved: ollama\n`sudo hearth doctor --fix` restarts it.\n{LINK}HUNG",
            [("HUNG", "kokoro", False), ("HUNG", "ollama", True)],
        ),
        (
            "Resolved: A disk is full",
            f"Resolved: /var\n{LINK}FULL",
            [("FULL", "/var", True)],
        ),
        ("Nothing to name", f"Look for it.\n{LINK}LOOK", [("LOOK", "", False)]),
    ],
)
def test_a_message_names_its_alerts(
    title: str, text: str, wanted: list[tuple[str, str, bool]]
) -> None:
    message = {"time": "1795450029", "title": title, "message": text}
    assert [(one.name, one.about, one.over) for one in read(message)] == wanted
