"""Optional packages, and for each the extra of this project that installs it."""

from typing import Final

BROUGHT_BY: Final = {
    "airflow": "airflow",
    "cryptography": "spark",
    "delta": "spark",
    "great_expectations": "gates",
    "mcp": "agents",
    "obstore": "stores",
    "py4j": "spark",
    "pyspark": "spark",
    "viztracer": "draw",
    "vl_convert": "draw",
}
"""Extra of this project that installs a package, by the package's import name."""


def missing(error: BaseException | None) -> str | None:
    """Return how to install the optional package that an import did not find; None for other errors."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name in ("pandas", "polars"):  # no extra installs them: answers can be converted to their data frames
        return f"{name} is not installed: pip install {name}"
    if name in BROUGHT_BY:
        return f"{name} is not installed: pip install 'straggler-fleet[{BROUGHT_BY[name]}]'"
    return None
