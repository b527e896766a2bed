"""The configuration is read once; each error in it is one line."""

import hashlib
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from hearth_trust.__main__ import main
from hearth_trust.config import Config, TrustError, address_of, load_config


def test_fingerprint_has_the_format_that_devices_show(config: Config, root: str) -> None:
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(root)).hexdigest().upper()
    assert config.fingerprint.replace(":", "") == digest
    assert config.fingerprint[2::3] == ":" * 31


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"site": None}, "site must be a string"),
        ({"site": 'x"y.lan'}, "is not a valid name"),
        ({"root": "/nowhere/root.crt"}, "/nowhere/root.crt: No such file"),
        ({"pages": None}, "TypeError"),
    ],
)
def test_each_error_is_one_line(file: Path, change: dict[str, Any], message: str) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(TrustError) as caught:
        load_config(file)
    assert message in str(caught.value)
    assert "hearth up" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_invalid_root_is_not_served(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(json.loads(file.read_text())["root"]).write_text("no certificate")
    assert main(["--config", str(file), "--port", "0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hearth-trust: ")


def test_address_is_the_current_one_of_the_interface() -> None:
    assert address_of("lo") == "127.0.0.1"
    assert address_of("no-such-link") is None
