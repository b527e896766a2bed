"""Everything that the answers need, put together once."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from .config import Config
from .credentials import Credentials
from .keys import Keyring, digest
from .ledger import Ledger
from .sessions import Sessions
from .throttle import Allowance, Throttle


@dataclass(frozen=True, slots=True)
class House:
    """What the login knows and counts while it runs."""

    config: Config
    keyring: Keyring
    password: bytes
    sessions: Sessions
    wrong_keys: Throttle
    wrong_passwords: Throttle

    def guards(self, host: str, *auths: str) -> bool:
        """Say whether this is the name of a site that asks for one of these."""
        site = self.config.sites.get(host)
        return site is not None and site.auth in auths


def make_house(
    config: Config,
    credentials: Credentials,
    ledger: Ledger,
    now: Callable[[], float] = time.monotonic,
) -> House:
    """Put the login together; of the secrets only the cookies' own is kept, the rest as digests."""
    return House(
        config=config,
        keyring=Keyring(credentials.consumer_keys),
        password=digest(credentials.house_password),
        sessions=Sessions(credentials, ledger),
        wrong_keys=Throttle(Allowance(20, 3), Allowance(200, 0.1), now),
        wrong_passwords=Throttle(Allowance(5, 30), Allowance(30, 5), now),
    )
