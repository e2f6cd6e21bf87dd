"""References in docstrings resolve, and generated parts of pages agree with the declarations in the code.

Parts of pages between `<!-- name -->` and `<!-- end -->` are generated from declarations in the code, or from
docstrings of the modules in the page's folder. After a change of these, `python -m tests.test_documents`
writes the parts again.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from jobs.landing.formats.rows import Bounds
from jobs.landing.one_run import read_run, runs_in
from jobs.runtime.settings import load_settings
from schemas import causes, op_types
from schemas.sql_files import first_sentence
from schemas.tables import TABLES
from schemas.vocabulary import REJECT_REASONS, UNIT_KEY, Status

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "model": ROOT / "udfs/kernel/README.md",
    "contract": ROOT / "schemas/README.md",
    "diagnosis": ROOT / "udfs/kernel/diagnosis/README.md",
}
FOLDERS = ("dags", "jobs", "udfs", "schemas", "tests")
REFERENCE = re.compile(r"\((model|contract|diagnosis), sections? (\d+)(?: and (\d+))?")
LINK = re.compile(r"\]\(((?!https?:)[^)#]+)(?:#[^)]*)?\)")


def pages() -> Iterator[Path]:
    """Yield the README pages of the project."""
    yield from (page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("README.md")))


MADE = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(*rows: Iterable[str]) -> str:
    """Format rows as a Markdown table, whose first row is the heading."""
    head, *lines = (f"| {' | '.join(row)} |\n" for row in rows)
    return head + re.sub(r"[^|\n]+", "---", head) + "".join(lines)


def why_slow() -> str:
    """Table of causes of slowness, with what to do about each."""
    parts = ((f"`{each.name}`", each.words, each.advice) for each in causes.DECLARED)
    return table(("cause", "in words", "what to do"), *parts)


def fixes() -> str:
    """Table of what a fix of each cause does, and how the diagnosis finds the cause."""
    rows = [("cause", "what a fix does", "found by")]
    for each in causes.DECLARED:
        where = f" (only where {each.only_where})" if each.only_where else ""
        rows.append((f"`{each.name}`", each.fix, each.found_by + where))
    return table(*rows)


def tables() -> str:
    """Table of all tables, with their keys and their other columns."""
    rows = [("table", "key", "what a row is", "columns")]
    for each in TABLES.values():
        of_unit = each.grain[: len(UNIT_KEY)] == UNIT_KEY
        key = ["unit", *each.grain[len(UNIT_KEY) :]] if of_unit else each.grain
        columns = [column.name for column in each.columns if column.name not in each.grain]
        rows.append((each.name, ", ".join(key), first_sentence(each.meaning), ", ".join(columns)))
    return table(*rows)


def statuses() -> str:
    """Table of statuses, which state how far a unit's analysis went, with what to do about each."""
    parts = ((f"`{each}`", each.words, each.advice.format(again="ingest it again")) for each in Status)
    return table(("status", "means", "what to do"), *parts)


def recorded() -> str:
    """Table of ops to wrap in a training loop; neighbours with equal texts share a row."""
    alike = groupby(op_types.DECLARED, lambda each: (each.around, each.microbatch, each.model_chunk))
    parts = ((", ".join(f"`{each.name}`" for each in ops), *facts) for facts, ops in alike)
    return table(("op", "around", "`microbatch`", "`model_chunk`"), *parts)


MODULES = "modules"
PARTS: dict[str, Callable[[], str]] = {
    "causes": why_slow,
    "fixes": fixes,
    "op_types": recorded,
    "statuses": statuses,
    "tables": tables,
}


def modules(folder: Path) -> str:
    """Table of the modules of a folder, with the first line of each module's docstring."""
    files = [each for each in sorted(folder.glob("*.py")) if each.name != "__init__.py"]
    meanings = [ast.get_docstring(ast.parse(each.read_text(encoding="utf-8"))) or "" for each in files]
    lines = (each.partition("\n")[0].rstrip(".").replace("|", "\\|") for each in meanings)
    return table(("module", "contents"), *zip((f"`{each.stem}`" for each in files), lines, strict=True))


def made(page: Path) -> str:
    """Return the text of a page with its generated parts written again."""

    def renewed(part: re.Match[str]) -> str:
        return part[1] + (modules(page.parent) if part[2] == MODULES else PARTS[part[2]]()) + part[3]

    return MADE.sub(renewed, page.read_text(encoding="utf-8"))


def references() -> Iterator[tuple[Path, str, str]]:
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            for page, *sections in REFERENCE.findall(file.read_text(encoding="utf-8")):
                yield from ((file, page, section) for section in sections if section)


def test_every_reference_in_a_docstring_names_an_existing_section() -> None:
    found = list(references())
    sections = {
        name: set(re.findall(r"^## (\d+)\.", page.read_text(), re.MULTILINE)) for name, page in PAGES.items()
    }
    assert len(found) > 20
    assert [each for each in found if each[2] not in sections[each[1]]] == []


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "README.md",
        *pages(),
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_contract_names_every_reason() -> None:
    words = set(re.findall(r"\w+", PAGES["contract"].read_text(encoding="utf-8")))
    assert set(REJECT_REASONS) - words == set()


def test_the_rank_log_of_the_readme_is_read(tmp_path: Path) -> None:
    blocks = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    line, manifest = map(json.loads, blocks)
    (tmp_path / "rank-00003.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "job.json").write_text(json.dumps(manifest))
    (run,) = runs_in(tmp_path)
    read = read_run(run, Bounds(**load_settings().landing.model_dump()))
    assert (read.rejects.num_rows, read.rows.num_rows, run.unit.job_id) == (0, 1, "my-job")


def kernel_modules() -> dict[str, set[str]]:
    """Return the kernel modules named in the kernel's README, with the modules that each imports."""
    folder = ROOT / "udfs/kernel"
    files = [file for file in folder.rglob("*.py") if file.name != "__init__.py"]
    names = {
        f"udfs.kernel.{'.'.join(file.relative_to(folder).with_suffix('').parts)}": file for file in files
    }
    found = {}
    for name, file in names.items():
        imports = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ImportFrom)]
        imported = {str(node.module) for node in imports}
        imported |= {f"{node.module}.{each.name}" for node in imports for each in node.names}
        found[name] = imported & (names.keys() - {name})
    return found


def test_the_model_has_a_row_for_each_module_of_the_kernel_behind_those_it_imports() -> None:
    section = PAGES["model"].read_text(encoding="utf-8").partition("## 8. Module by module")[2]
    listed = [f"udfs.kernel.{name}" for name in re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE)]
    modules = kernel_modules()
    assert sorted(listed) == sorted(modules)
    place = {name: number for number, name in enumerate(listed)}
    assert [(name, each) for name in listed for each in modules[name] if place[each] > place[name]] == []


def test_pages_list_what_is_declared() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in pages()}
    assert {name for text in texts.values() for _, name, _ in MADE.findall(text)} == {*PARTS, MODULES}
    outdated = [page for page, text in texts.items() if made(page) != text]
    assert outdated == [], "python -m tests.test_documents writes them again"


if __name__ == "__main__":
    for each in pages():
        each.write_text(made(each), encoding="utf-8")
