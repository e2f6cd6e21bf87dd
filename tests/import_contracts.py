"""Check the import contracts in pyproject.toml by import-linter and by a contract type of our own."""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.cli import lint_imports
from importlinter.domain.helpers import module_expressions_to_modules


class OnlyContract(Contract):
    """Modules may import nothing but the standard library and the packages in `allowed`.

    The contract lists allowed packages, because a list of forbidden packages would miss packages that are
    added later.
    """

    type_name = "only"

    modules: Any = fields.SetField(subfield=fields.ModuleExpressionField())
    allowed: Any = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find the direct imports that the contract does not allow."""
        modules = {module.name for module in module_expressions_to_modules(graph, self.modules)}
        missing = modules - graph.modules
        if missing or not modules:
            raise ValueError(f"no such modules: {sorted(missing) or self.modules}")
        broken = sorted(
            f"{module} -> {imported}"
            for module in modules
            for imported in graph.find_modules_directly_imported_by(module)
            if not self._is_allowed(imported)
        )
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the imports that the contract does not allow."""
        for line in check.metadata["broken"]:
            output.print_error(line, bold=False)

    def _is_allowed(self, imported: str) -> bool:
        return imported.split(".", maxsplit=1)[0] in sys.stdlib_module_names or any(
            imported == name or imported.startswith(f"{name}.") for name in self.allowed
        )


if __name__ == "__main__":
    sys.exit(lint_imports(no_logo=True))
