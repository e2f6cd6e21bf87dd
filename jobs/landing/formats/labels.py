"""Parse the manifest field `labels`: names with text values, bounded in size."""

from typing import Final

from jobs.landing.formats.strict_json import NotANumber, is_name, is_text, shown

MOST_LABELS: Final = 1000
MOST_LABEL_BYTES: Final = 64_000
"""Of names and values together."""


def labels_of(given: object) -> tuple[dict[str, str] | None, list[str]]:
    """Return the valid labels as text (None if there are too many), and one sentence for each defect.

    given : as JSON has it; numbers and truth values are stored as JSON spells them
    """
    if not isinstance(given, dict):
        return None, [f"labels is {shown(given)}, not an object"]
    if len(given) > MOST_LABELS:
        return None, [f"labels are {len(given)}, more than {MOST_LABELS}"]
    texts: dict[str, str] = {}
    left, defects = MOST_LABEL_BYTES, []
    for name, value in given.items():
        if not is_text(name) or not _is_label(value):
            defects.append(f"label {shown(name)} is {shown(value)}, not text")
        elif value is not None:
            text = value if isinstance(value, str) else shown(value)
            left -= len(name.encode()) + len(text.encode())
            if left < 0:
                return None, [f"labels have more than {MOST_LABEL_BYTES} bytes"]
            texts[name] = text
    return texts, defects


def _is_label(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, NotANumber)
    return value is None or is_number or is_name(value, MOST_LABEL_BYTES)
