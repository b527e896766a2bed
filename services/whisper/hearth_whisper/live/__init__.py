"""Listening to somebody who talks: when it is speech, when it ends, and what was said."""
