"""What a browser lets our pages do: nothing but show what lies in them and beside them."""

import re
from base64 import b64encode
from hashlib import sha256
from typing import Final

_ALWAYS: Final = "default-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'"

OF_FILES_BESIDE: Final = (
    # 'self' of a page that was opened from disk is none of the files beside it to some browsers.
    f"{_ALWAYS}; script-src 'self' file:; style-src 'self' file:; img-src data:"
)
"""Of a page whose script and style lie beside it."""


def of_inline(template: str) -> str:
    """Return the policy of a page whose script and style stand in its template, to the letter."""
    found = [_ALWAYS]
    for tag in ("style", "script"):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", template, re.DOTALL)
        hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts]
        found += [f"{tag}-src {' '.join(hashes)}"] if hashes else []
    return "; ".join(found)
