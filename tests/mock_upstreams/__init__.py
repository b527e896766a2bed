"""The mock upstreams: an imitation of the download servers that a house needs, for the lab only.

It stands at the outer end of the lab's wire. The real host names resolve to it, its certificate
comes from its own authority, and it answers with the paths, redirects and layouts of the real
servers, so that the code a user runs is the code that is tested.
"""


class MockUpstreamsError(Exception):
    """One line for a person: what is wrong, where, and what to do."""
