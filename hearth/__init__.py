"""Hearth turns one bare Debian machine into a private AI house."""

__version__ = "0.1.0"
