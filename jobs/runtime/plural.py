"""Counts with their nouns, in the singular or plural."""


def plural(count: float, one: str, shown: str = "") -> str:
    """Return a count with its noun, which gets an s unless the count is 1.

    shown : text for the count, if it is not to be written as in 1,234
    """
    return f"{shown or f'{count:,}'} {one}{'' if count == 1 else 's'}"
