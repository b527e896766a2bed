"""A patch that makes an upstream Kokoro-FastAPI stream; it has a preview and is reversible."""

from hearth_kokoro_patch.planning import Change, Plan, State, plan, state, take_back
from hearth_kokoro_patch.source import ALL, STEPS, PatchError

__all__ = [
    "ALL",
    "STEPS",
    "Change",
    "PatchError",
    "Plan",
    "State",
    "plan",
    "state",
    "take_back",
]
