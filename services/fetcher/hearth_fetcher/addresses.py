"""The only addresses that are fetched from: public ones outside the house and its LAN."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from hearth_serving.errors import ServiceError

Resolve = Callable[[str], Awaitable[Sequence[str]]]

# https://www.iana.org/assignments/iana-ipv4-special-registry, multicast, and relays from 6to4. The
# firewall has the same list: hearth/render/files.py. Older releases of `ipaddress` lack some.
NOT_PUBLIC = tuple(
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
    )
)


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides which addresses of a name may be used.

    `closed` are the networks of the house and its LAN. The names in `open_names` may have any
    address.
    """

    resolve: Resolve
    closed: tuple[IPv4Network, ...] = ()
    open_names: frozenset[str] = frozenset()

    async def addresses(self, host: str) -> Sequence[str]:
        """Return the addresses of a host; raises ServiceError unless all of them may be used."""
        # The host may be a server's word, in a redirect: no message repeats it.
        literal = _literal(host)
        found = [literal] if literal else await self.resolve(host)
        if not found:
            raise ServiceError("the host has no IPv4 address", status=502, code="no_address")
        # One private address among public ones is an attack, or a mistake of that name's owner.
        if host not in self.open_names and not all(map(self._is_public, found)):
            message = "the host is not on the internet: only public addresses are fetched from"
            raise ServiceError(message, status=403, code="address_not_allowed")
        return found

    def _is_public(self, text: str) -> bool:
        address = IPv4Address(text)
        return not _in(address, NOT_PUBLIC) and not _in(address, self.closed)


def _literal(host: str) -> str | None:
    try:
        return str(IPv4Address(host))
    except ValueError:
        return None


def _in(address: IPv4Address, networks: Iterable[IPv4Network]) -> bool:
    return any(address in network for network in networks)
