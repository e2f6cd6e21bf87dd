"""Write a report to a store through a local folder that mirrors the store's file names."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs.report.links import HEADLINE_NAME
from jobs.runtime import objects


@contextmanager
def mirrored(root: str) -> Iterator[Path]:
    """Yield a local folder that mirrors a report's file names; changes in it are uploaded afterwards.

    Pages come before the lists that lead to them. Files that a new publication lacks are removed last.
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
            if content and content != kept.get(name) and not _is_hidden(name):
                objects.write(root, name, content)
        objects.remove(root, sorted({*there} - {*found}))


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))
