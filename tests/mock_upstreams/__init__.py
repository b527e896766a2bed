"""The mock upstreams: an imitation of the download servers that a house needs, for the lab only.

It runs at the outer end of the lab's link. The real host names resolve to it, its certificate
comes from its own authority, and it uses the paths, redirects and layouts of the real servers.
So the tests run the same code as a user.
"""


class MockUpstreamsError(Exception):
    """A one-line message: what is wrong, where, and what to do."""
