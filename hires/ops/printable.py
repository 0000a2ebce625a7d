"""Text from outside, such as the name of a file, as it may be shown in a terminal."""

import re

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but for tabs and line breaks, those that turn the direction, and what no encoding holds."""


def printable(text: str) -> str:
    """The text with what would steer a terminal, or mislead who reads it, written as \\x1b."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
