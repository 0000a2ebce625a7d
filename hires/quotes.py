"""What a user need not quote on a command line, though Hydra's grammar asks for it."""

import re

from hydra.core.override_parser import overrides_parser
from hydra.errors import HydraException

_ASCII = 0x7F
_CLOSING = {"[": "]", "{": "}"}


class _AllLetters(overrides_parser.InputStream):
    """Text of which the grammar takes every character beyond ASCII for a letter; what it reads stays as it is."""

    def LA(self, offset: int) -> int:
        """The character at a place, as ANTLR asks for it."""
        code: int = super().LA(offset)
        return ord("a") if code > _ASCII else code


def read_all_letters() -> None:
    """Has Hydra read letters beyond ASCII in values and in keys of mappings, as YAML files may hold them."""
    overrides_parser.InputStream = _AllLetters


def quote_text(word: str) -> str:
    """An override `KEY=VALUE` that Hydra cannot read, with its value as a text; no list or mapping."""
    key, equals, value = word.partition("=")
    if not equals or not value.strip() or word.startswith("-") or _is_read(word) or not _is_read(f"{key}=1"):
        return word
    if value[0] in "'\"$" or (value[0] in _CLOSING and _end_of_brackets(value) in (None, len(value))):
        return word
    escaped = re.sub(r'(\\*)("|$)', lambda found: 2 * found[1] + ('\\"' if found[2] else ""), value)
    return f'{key}="{escaped}"'


def _is_read(word: str) -> bool:
    try:
        overrides_parser.OverridesParser.create().parse_override(word)
    except HydraException:
        return False
    return True


def _end_of_brackets(text: str) -> int | None:
    """The place behind the bracket that closes the first character; None: nothing does."""
    depth = 0
    for place, character in enumerate(text, start=1):
        depth += (character in _CLOSING) - (character in _CLOSING.values())
        if not depth:
            return place
    return None


def quote_elements(text: str) -> str:
    """An argument whose lists may hold bare overrides: `[a=b, c=[1, 2]]` becomes `['a=b', 'c=[1, 2]']`.

    Hydra would not read a `=` there.
    """
    done, open_brackets, place = "", "", 0
    while place < len(text):
        character = text[place]
        end = place + 1
        if character in "'\"":
            end = _end_of_text(text, place)
        elif open_brackets.endswith("[") and character not in "[{]}, ":
            end = _end_of_element(text, place)
            done += "'" + text[place:end].rstrip().replace("'", r"\'") + "'"
            place = end
            continue
        elif character in "[{":
            open_brackets += character
        elif character in "]}":
            open_brackets = open_brackets[:-1]
        done += text[place:end]
        place = end
    return done


def _end_of_text(text: str, start: int) -> int:
    """The place behind the quote that ends a quoted text."""
    place = start + 1
    while place < len(text) and text[place] != text[start]:
        place += 2 if text[place] == "\\" else 1
    return place + 1


def _end_of_element(text: str, start: int) -> int:
    """The place of the comma or bracket that ends a bare element of a list."""
    depth, place = 0, start
    while place < len(text) and (depth or text[place] not in ",]"):
        if text[place] in "'\"":
            place = _end_of_text(text, place)
            continue
        depth += (text[place] in "[{") - (text[place] in "]}")
        place += 1
    return place
