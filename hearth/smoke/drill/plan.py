"""What the gateway reads in a drill: its own files, with a breakable server before each member."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import yaml

from hearth.smoke.drill.faults import Member

# A loopback of its own: nothing else listens there, and no number on it is handed out.
HOST, PORT = "127.0.0.2", 4000
_FIRST_PORT = 4101
FILES = ("config.yaml", "aliases.json", "consumers.json")
# What a drill leaves a request beyond its members' own time.
_MORE_S = 2.0


class DrillError(Exception):
    """One line for a person: why there is no drill."""


@dataclass(frozen=True, slots=True)
class Target:
    """One alias as it is drilled; `real` are its members that are asked where they are."""

    name: str
    kind: str
    members: tuple[str, ...]
    first_token_timeout_s: float
    timeout_s: float
    real: tuple[str, ...]

    @property
    def first(self) -> str:
        """The member that is broken."""
        return self.members[0]


@dataclass(frozen=True, slots=True)
class Plan:
    """The files of the drill's gateway, the servers before its members, and who is drilled."""

    files: Mapping[str, str]
    members: tuple[Member, ...]
    targets: tuple[Target, ...]

    def as_json(self, idle_s: float) -> dict[str, Any]:
        """Return what the drill's room is told at its start."""
        fields = ("name", "host", "port", "real", "kind")
        members = [{field: getattr(one, field) for field in fields} for one in self.members]
        told = {"files": dict(self.files), "members": members}
        return told | {"gateway": [HOST, PORT], "idle_s": idle_s}


def make(rendered: Mapping[str, str], asked: Set[str], first_token_timeout_s: float) -> Plan:
    """Return the plan of a drill.

    Args:
        rendered: The gateway's own files as they are in use, by name.
        asked: The members that may be asked where they are; the others are played.
        first_token_timeout_s: How long a member may take to its first token; shorter ones stay.
    """
    config = yaml.safe_load(rendered["config.yaml"])
    names = json.loads(rendered["aliases.json"])
    routes = {route["model_name"]: route for route in config["model_list"]}
    within = [m for record in names.values() if record.get("alias") for m in record["members"]]
    members = {
        name: _member(name, _FIRST_PORT + number, routes.get(name), name in asked)
        for number, name in enumerate(dict.fromkeys(within))
    }
    for member in members.values():
        if route := routes.get(member.name):
            _redirect(route, member)
    for record in names.values():
        _hurry(record, first_token_timeout_s)
        for name, server in record.get("servers", {}).items():
            server |= {"url": f"http://{HOST}:{members[name].port}", "key": None}
    files = {"config.yaml": yaml.safe_dump(config), "aliases.json": json.dumps(names)}
    targets = tuple(
        _target(name, record, members) for name, record in names.items() if record.get("alias")
    )
    return Plan({**rendered, **files}, tuple(members.values()), targets)


def _member(name: str, port: int, route: Mapping[str, Any] | None, asked: bool) -> Member:
    """A member with a route speaks through LiteLLM; one without turns speech into text."""
    if route is None:
        return Member(name, HOST, port, None, "transcribe")
    base = str(route["litellm_params"].get("api_base") or "")
    kind = "embed" if route["model_info"]["mode"] == "embedding" else "chat"
    real = base if asked and base.startswith("http://") else None
    return Member(name, HOST, port, real, kind)


def _redirect(route: dict[str, Any], member: Member) -> None:
    """Let LiteLLM ask the drill's server; no cloud is asked, and no key of one leaves here."""
    params = route["litellm_params"]
    path = urlsplit(str(params.get("api_base") or "")).path or "/v1"
    params["model"] = f"openai/{params['model'].partition('/')[2]}"
    params |= {"api_base": f"http://{HOST}:{member.port}{path}", "api_key": "none"}


def _hurry(record: dict[str, Any], first_token_timeout_s: float) -> None:
    record["first_token_timeout_s"] = min(record["first_token_timeout_s"], first_token_timeout_s)
    most_s = len(record["members"]) * record["first_token_timeout_s"] + _MORE_S
    record["timeout_s"] = min(record["timeout_s"], most_s)


def _target(name: str, record: Mapping[str, Any], members: Mapping[str, Member]) -> Target:
    own = tuple(record["members"])
    real = tuple(member for member in own if members[member].real)
    kind = members[own[0]].kind
    return Target(name, kind, own, record["first_token_timeout_s"], record["timeout_s"], real)
