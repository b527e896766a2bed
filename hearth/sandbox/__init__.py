"""Sandboxes: disposable copies of instances, where anything may be tried and nothing is reached.

A sandbox has no secret of the house, no network but its own loopback, no card, and none of the
service's data unless a person asks for a copy. All that is known about one is in Incus, so any
process of Hearth can use it, and it is deleted after an hour whatever else was restarted.
"""

from hearth.machine.engine import EngineError


class SandboxError(EngineError):
    """One line for a person: why a sandbox cannot do this, and what to do."""
