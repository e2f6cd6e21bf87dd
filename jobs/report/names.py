"""Names of the report's files. An id may hold any text: what is left of it in a name is harmless."""

import re
from datetime import date
from hashlib import sha256
from typing import Final

JOBS_FOLDER: Final = "jobs"
"""Folder of the job pages in a publication."""
HOSTS_FOLDER: Final = "hosts"
"""Folder of the host pages in a publication."""
INDEX_NAME: Final = "index.html"

_HARMLESS: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST: Final = 40


def job_page_path(day: date | str, job_id: str, run_id: str) -> str:
    """Where the page of one unit lies, from the report's root; other ids have other paths."""
    return f"{day}/{JOBS_FOLDER}/{_file_name(job_id, run_id)}"


def host_page_path(host: str) -> str:
    """Where the page of one host lies, from the publication's folder."""
    return f"{HOSTS_FOLDER}/{_file_name(host)}"


def docs_path(warehouse_root: str, log_date: date, phase: str) -> str:
    """Where the data docs of a phase lie for a night."""
    return f"{warehouse_root}/{docs_name(log_date, phase)}"


def docs_name(log_date: date, phase: str) -> str:
    """Where they lie, from the warehouse's root."""
    return f"_quality/log_date={log_date.isoformat()}/{phase}.html"


def _file_name(*ids: str) -> str:
    shown = "-".join(_HARMLESS.sub("-", text)[:_LONGEST].strip("-") for text in ids)
    digest = sha256(f"{len(ids[0])}:{''.join(ids)}".encode()).hexdigest()[:10]
    return f"{shown}-{digest}.html"
