"""Home Assistant's satellites: the Wyoming protocol over the same model in memory.

The protocol has no keys and no encryption: every client that reaches the port is served.
"""
