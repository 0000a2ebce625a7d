"""Quotes what a user need not quote on a command line."""


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
