"""A reserved port is only for the program that gets its number."""

import socket

import pytest

from tests.ports import kept_port


def test_a_kept_port_is_only_for_the_program_that_knows_its_number() -> None:
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
