"""`hearth bench chat` and its options."""

from typing import Annotated

import typer

from hearth.cli.console import AsJson


def bench_chat(
    model: Annotated[str, typer.Option("--model", help="A model or alias.")] = "fast",
    users: Annotated[int, typer.Option("--users", min=1, max=50, help="How many people ask.")] = 5,
    rounds: Annotated[
        int, typer.Option("--rounds", "-n", min=1, max=1000, help="How often they all do.")
    ] = 20,
    apart_s: Annotated[
        float, typer.Option("--apart", min=0, max=60, help="Within how many seconds; 0: at once.")
    ] = 1.0,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start the chat anew first: its pages go away.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the first word in the chat with the gateway's own, for several people at a time.

    They get accounts of their own, which are removed with all that they asked. In each round all
    begin within --apart seconds of each other. Exit code 1 when something was not reached.

    Example: hearth bench chat -n 20 --users 5
    """
    from hearth.cli.chatting import Asked, chat

    chat(Asked(model, users, rounds, apart_s, restart), as_json)
