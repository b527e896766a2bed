"""A house on another machine: the controller sends the project there, and it builds itself."""

from hearth.remote.controller import (
    CLONE,
    RemoteError,
    Target,
    follow,
    local_settings,
    prepared,
    send,
    target,
)

__all__ = [
    "CLONE",
    "RemoteError",
    "Target",
    "follow",
    "local_settings",
    "prepared",
    "send",
    "target",
]
