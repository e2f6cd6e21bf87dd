"""References in docstrings lead somewhere, and the contract names everything that the code declares."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.landing.formats.rows import Bounds
from jobs.landing.one_run import read_run, runs_in
from jobs.runtime.settings import load_settings
from schemas.vocabulary import CAUSES, REJECT_REASONS, STATUSES, TABLE_NAMES

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "model": ROOT / "udfs/kernel/README.md",
    "contract": ROOT / "schemas/README.md",
    "diagnosis": ROOT / "udfs/kernel/diagnosis/README.md",
}
FOLDERS = ("dags", "jobs", "udfs", "schemas", "tests")
REFERENCE = re.compile(r"\((model|contract|diagnosis), sections? (\d+)(?: and (\d+))?")
LINK = re.compile(r"\]\(((?!https?:)[^)#]+)(?:#[^)]*)?\)")


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
        *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("README.md"))),
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "names", [TABLE_NAMES, STATUSES, REJECT_REASONS, CAUSES], ids=["tables", "statuses", "reasons", "causes"]
)
def test_the_contract_names_every(names: tuple[str, ...]) -> None:
    words = set(re.findall(r"\w+", PAGES["contract"].read_text(encoding="utf-8")))
    assert set(names) - words == set()


def test_the_rank_log_of_the_readme_is_read(tmp_path: Path) -> None:
    blocks = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    line, manifest = map(json.loads, blocks)
    (tmp_path / "rank-00003.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "job.json").write_text(json.dumps(manifest))
    (run,) = runs_in(tmp_path)
    read = read_run(run, Bounds(**load_settings().landing.model_dump()))
    assert (read.rejects.num_rows, read.rows.num_rows, run.unit.job_id) == (0, 1, "my-job")


def kernel_modules() -> dict[str, set[str]]:
    """Modules of the kernel as its page names them, and those that each imports."""
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
