"""A page as one file that can be moved and sent: its style and scripts stand in it, not beside it."""

import re
from collections.abc import Mapping
from typing import Final

from jobs.report.policy import OF_FILES_BESIDE, of_inline

_BESIDE: Final = re.compile(
    r'<link rel="stylesheet" href="[^"]*/(?P<style>[\w.-]+)">'
    r'|<script defer src="[^"]*/(?P<script>[\w.-]+)"></script>'
)


def single_file(page: bytes, shared: Mapping[str, bytes]) -> bytes:
    """Return a page that needs nothing beside it.

    shared : contents of the files that pages share, by name
    """
    text, scripts = page.decode(), []

    def inline(found: re.Match[str]) -> str:
        if found["style"]:
            return f"<style>{shared[found['style']].decode()}</style>"
        scripts.append(shared[found["script"]].decode().replace("</script", "<\\/script"))
        return ""

    head = _BESIDE.sub(inline, text)
    body, end, rest = head.rpartition("</body>")
    whole = f"{body}{''.join(f'<script>{each}</script>' for each in scripts)}{end}{rest}"
    return whole.replace(_escaped(OF_FILES_BESIDE), _escaped(of_inline(whole))).encode()


def _escaped(policy: str) -> str:
    """Return a policy as the template has written it."""
    return policy.replace("'", "&#39;")
