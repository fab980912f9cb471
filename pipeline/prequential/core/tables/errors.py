"""What the core says about a record that it can't use."""


class Unusable(Exception):
    """A record goes to dead-letters; the message is the reason, one sentence that quotes what is wrong."""
