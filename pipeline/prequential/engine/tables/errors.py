"""The error with which the engine rejects an invalid record."""


class Unusable(Exception):
    """A record goes to dead-letters; the message is the reason, one sentence that quotes what is wrong."""
