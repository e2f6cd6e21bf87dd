"""Writer of a report to an object store, by a local folder that mirrors the names of the store's files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs.report.links import HEADLINE_NAME
from jobs.runtime import objects


@contextmanager
def mirrored(root: str) -> Iterator[Path]:
    """Yield a local folder with the file names of a report in a store; afterwards upload changed files.

    Files from the store are empty in the folder, except for headlines. Pages are uploaded before the lists
    that link to them. Files that were deleted in the folder are removed from the store at the end.
    """
    with TemporaryDirectory(prefix="straggler-report-") as made:
        folder = Path(made)
        there = [each.name for each in objects.listed(root)]
        headlines = [name for name in there if name.endswith(f"/{HEADLINE_NAME}")]
        kept = dict(zip(headlines, objects.contents(root, headlines), strict=True))
        for name in there:
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(kept.get(name, b""))
        yield folder
        found = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
        for name in sorted(found, key=lambda name: (-name.count("/"), name)):
            content = (folder / name).read_bytes()
            is_hidden = any(part.startswith(".") for part in name.split("/"))
            if content and content != kept.get(name) and not is_hidden:
                objects.write(root, name, content)
        objects.remove(root, sorted({*there} - {*found}))
