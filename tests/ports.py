"""A port for a program that is told where to listen."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_port() -> Iterator[int]:
    """Keep a loopback port for users of its number; the kernel gives it to no other program."""
    with socket.socket() as keeper:
        # Held while it is in use: a port that was only found free is soon taken. Linux
        # lets a second one with this option bind it by its number, since nothing listens here.
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield int(keeper.getsockname()[1])
