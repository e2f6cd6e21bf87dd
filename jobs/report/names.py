"""Names of the report's files. A job's id may hold any text: what is left of it in a name is harmless."""

import re
from datetime import date
from hashlib import sha256
from typing import Final

JOBS_FOLDER: Final = "jobs"
"""Folder of the job pages in a publication."""
INDEX_NAME: Final = "index.html"

_HARMLESS: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST: Final = 40


def job_page_path(day: date | str, job_id: str, run_id: str) -> str:
    """Where the page of one unit lies, from the report's root; other ids have other paths."""
    told = "-".join(_HARMLESS.sub("-", text)[:_LONGEST].strip("-") for text in (job_id, run_id))
    digest = sha256(f"{len(job_id)}:{job_id}{run_id}".encode()).hexdigest()[:10]
    return f"{day}/{JOBS_FOLDER}/{told}-{digest}.html"
