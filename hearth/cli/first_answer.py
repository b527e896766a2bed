"""Wait until the house answers for the first time."""

import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from hearth import status
from hearth.catalogue.house import House, Model
from hearth.clients.edge import Edge, EdgeError
from hearth.clients.models import FAILED, MISSING, READY, TOO_BIG, ModelState

ALIAS = "fast"
# A model that is on the disk may still take this long to load for the first time.
_ANSWER_S = 300
_LOOK_EVERY_S = 1
_HOPELESS = (TOO_BIG, MISSING)


class FirstAnswerError(Exception):
    """One line for a person: why no model answers, and where to look."""


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """Which model answered first, what it said, and after how many seconds."""

    model: str
    text: str
    seconds: float


def wait(house: House, edge: Edge, gateway: str, key: str, console: Console) -> FirstAnswer | None:
    """Wait for the smallest local model of `fast`, then for its answer over HTTPS.

    Returns nothing where this house has no such model.

    Raises:
        FirstAnswerError: the download fails for good, or nothing answers.
    """
    alias = house.aliases.get(ALIAS)
    models = [house.models[name] for name in alias.members] if alias and alias.offered else []
    local = [model for model in models if model.local]
    if not local:
        return None
    smallest = min(local, key=lambda model: model.download_bytes or 0)
    began = time.monotonic()
    _wait_for_model(house, smallest, console)
    text = _ask(edge, gateway, key, smallest)
    return FirstAnswer(smallest.name, text, time.monotonic() - began)


def _wait_for_model(house: House, model: Model, console: Console) -> None:
    """Show the download until the model is here."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(model.name, total=model.download_bytes)
        while (state := status.models(house).models[model.name]).state != READY:
            _give_up(state)
            bar.update(task, completed=state.completed_bytes, total=state.total_bytes or None)
            if state.state == FAILED:
                bar.update(task, description=f"{model.name} (again soon: {state.reason})")
            time.sleep(_LOOK_EVERY_S)


def _give_up(state: ModelState) -> None:
    if state.state in _HOPELESS:
        raise FirstAnswerError(f"{state.name}: {state.reason}: see `hearth models`")


def _ask(edge: Edge, gateway: str, key: str, model: Model) -> str:
    """Ask one small question over HTTPS, as a device on the LAN would."""
    send = {"model": model.name, "messages": [{"role": "user", "content": "Say hello."}]}
    deadline = time.monotonic() + _ANSWER_S
    trouble = ""
    while (left := deadline - time.monotonic()) > 0:
        try:
            answer = edge.ask(
                gateway,
                "/v1/chat/completions",
                key=key,
                send=send | {"max_tokens": 16},
                within_s=left,
            )
        except EdgeError as error:
            trouble = str(error)
        else:
            if answer.status == 200:
                return str(answer.json()["choices"][0]["message"]["content"]).strip()
            trouble = f"https://{gateway} says HTTP {answer.status}: {answer.text[:200]}"
        time.sleep(_LOOK_EVERY_S)
    raise FirstAnswerError(f"{model.name} does not answer: {trouble}: see `hearth logs litellm`")
