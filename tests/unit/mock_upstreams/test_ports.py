"""A reserved port is only for the program that gets its number."""

import socket

import pytest

from tests.ports import kept_port


def test_who_is_told_may_listen_and_who_asks_for_any_gets_another() -> None:
    with kept_port() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with (
            socket.create_server(("127.0.0.1", port)) as server,
            socket.create_connection(("127.0.0.1", port)) as caller,
        ):
            accepted, _ = server.accept()
            accepted.close()
            assert caller.getpeername() == server.getsockname()
