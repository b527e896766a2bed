"""What the page is about is read once, and what is wrong with it is one line."""

import hashlib
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from hearth_trust.__main__ import main
from hearth_trust.config import Config, TrustError, address_of, load_config


def test_it_knows_the_fingerprint_as_devices_show_it(config: Config, root: str) -> None:
    plain = hashlib.sha256(ssl.PEM_cert_to_DER_cert(root)).hexdigest().upper()
    assert config.fingerprint.replace(":", "") == plain
    assert config.fingerprint[2::3] == ":" * 31


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"site": None}, "site must be a text"),
        ({"site": 'x"y.lan'}, "is no name"),
        ({"root": "/nowhere/root.crt"}, "/nowhere/root.crt: No such file"),
        ({"pages": None}, "TypeError"),
    ],
)
def test_what_is_wrong_is_one_line(file: Path, change: dict[str, Any], named: str) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(TrustError) as caught:
        load_config(file)
    assert named in str(caught.value)
    assert "hearth up" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_root_that_is_none_is_not_handed_out(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(json.loads(file.read_text())["root"]).write_text("no certificate")
    assert main(["--config", str(file), "--port", "0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hearth-trust: ")


def test_the_address_is_the_one_that_the_interface_has_now() -> None:
    assert address_of("lo") == "127.0.0.1"
    assert address_of("no-such-wire") is None
