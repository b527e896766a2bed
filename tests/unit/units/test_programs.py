"""Roles hand programs over as data: what becomes of it, and what is rejected."""

import json
from hashlib import sha256
from typing import Any

import pytest

from hearth.render.programs import (
    Program,
    credential_values,
    read_program,
    rendered_files,
    with_sidecar,
)
from hearth.render.units import UnitError

RUN = {"summary": "A program", "user": "app", "command": ["/usr/bin/app"]}
SERVICE = {
    "name": "app",
    "address": "10.0.0.2",
    "port": 80,
    "url": "http://10.0.0.2:80",
    "inside": "127.0.0.1",
    "image": "debian/13",
}


def program(**more: Any) -> Program:
    return read_program({"name": "app", "run": RUN} | more)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"name": "app", "fils": []}, "fils is not a valid field of a program; known are name,"),
        ({"run": RUN}, "name is missing in a program"),
    ],
)
def test_an_invalid_field_is_one_line(data: dict[str, Any], words: str) -> None:
    with pytest.raises(UnitError, match=words):
        read_program(data)


def test_the_error_for_start_data_names_the_program() -> None:
    with pytest.raises(UnitError, match="app: command must start with the full path of a program"):
        _ = program(run={**RUN, "command": []}).unit


def test_a_unit_loads_the_credentials_and_no_value_is_an_argument() -> None:
    arguments = program(credentials={"key": "app_key"})
    assert "LoadCredential=key:/etc/hearth/credentials/app/key" in arguments.unit
    assert "credentials" not in arguments.arguments()


def test_our_unit_starts_at_boot_and_debians_is_unchanged() -> None:
    assert program().arguments()["enabled"]
    debians = read_program({"name": "systemd-sysctl", "user": ""}).arguments()
    assert (debians["unit"], debians["enabled"], debians["stopped"]) == ("", False, False)
    assert program(enabled=False).arguments()["stopped"]


def test_a_credential_may_be_a_mapping_of_secrets() -> None:
    given = program(credentials={"one": "a", "keys": {"household": "b"}})
    values = credential_values(given, {"a": "1", "b": "2"})
    assert values == {"one": "1", "keys": json.dumps({"household": "2"})}
    with pytest.raises(KeyError, match="b"):
        credential_values(given, {"a": "1"})


def test_a_digest_replaces_each_secret_of_a_credential() -> None:
    given = program(credentials={"one": "a", "keys": {"ann": "b"}}, digests=["keys"])
    values = credential_values(given, {"a": "1", "b": "2"})
    assert values == {"one": "1", "keys": json.dumps({"ann": sha256(b"2").hexdigest()})}


def test_paths_make_a_sidecar_proxy_of_the_next_user() -> None:
    [app, proxy] = with_sidecar(program(paths=["/api/chat"], health={"url": "http://x"}), SERVICE)
    assert (app.name, app.uid, app.paths) == ("app", 900, ())
    assert (proxy.name, proxy.uid, proxy.user) == ("app-proxy", 901, "app-proxy")
    assert proxy.health == app.health
    text = rendered_files([proxy])["app-proxy.Caddyfile"]
    assert "@allowed path /api/chat\n" in text
    assert "reverse_proxy 127.0.0.1:80 {" in text
    assert "\nhttp://10.0.0.2:80 {\n\tbind 10.0.0.2\n" in text
    assert "buffer_requests" in text


def test_a_newer_caddy_has_another_name_for_its_buffer() -> None:
    service = SERVICE | {"image": "debian/forky"}
    [_, proxy] = with_sidecar(program(paths=["/"]), service)
    assert "request_buffers unlimited" in rendered_files([proxy])["app-proxy.Caddyfile"]


def test_without_paths_a_program_has_no_sidecar_proxy() -> None:
    assert with_sidecar(program(), SERVICE) == [program()]


def test_a_python_module_is_started_isolated_and_watched() -> None:
    run = {"summary": "A program", "user": "app", "module": "app", "arguments": ["--port", 80]}
    given = program(run=run | {"import_from": ["/opt/a", "/opt/b"], "environment": {"HOME": "/x"}})
    unit = given.unit
    assert "ExecStart=/usr/bin/python3 -P -m app --port 80\n" in unit
    assert "Environment=PYTHONPATH=/opt/a:/opt/b\n" in unit
    assert "Environment=PYTHONDONTWRITEBYTECODE=1\n" in unit
    assert "Environment=HOME=/x\n" in unit
    assert given.arguments()["watch"] == ["/opt/a", "/opt/b"]
