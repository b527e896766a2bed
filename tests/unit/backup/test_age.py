"""The recovery key: age accepts ours, and a mistyped one is rejected."""

from __future__ import annotations

import subprocess

import pytest

from hearth.backup import BackupError, age
from hearth.catalogue import values
from tests.unit.backup.local import KEY, RECIPIENT


def test_age_itself_accepts_our_keys() -> None:
    identity, recipient = age.new_key()
    argv = ["age-keygen", "-y"]
    done = subprocess.run(
        argv, input=identity, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == recipient == age.recipient_of(identity)
    assert age.new_key()[0] != identity


def test_a_file_of_age_keygen_is_accepted() -> None:
    text = f"# created: 2026-11-22T00:00:00Z\n# public key: {RECIPIENT}\n{KEY}\n"
    assert age.read_identity(text) == KEY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        KEY[:-1],
        KEY.replace("EPLN", "EPNL"),
        KEY.lower(),
        RECIPIENT,
        f"{KEY}\n{KEY}",
        "hunter2",
    ],
)
def test_a_mistyped_key_is_rejected_and_not_repeated(text: str) -> None:
    with pytest.raises(BackupError, match="recovery key") as refused:
        age.read_identity(text)
    assert not text or text.splitlines()[0] not in str(refused.value)


def test_a_recipient_with_a_mistake_is_refused() -> None:
    assert values.recipient(RECIPIENT) == RECIPIENT
    swapped = RECIPIENT[:10] + RECIPIENT[11] + RECIPIENT[10] + RECIPIENT[12:]
    assert swapped != RECIPIENT
    for text in (swapped, RECIPIENT[:-1], RECIPIENT.upper(), "age1", "", KEY, KEY.lower()):
        with pytest.raises(ValueError, match="backup --new-key`"):
            values.recipient(text)
