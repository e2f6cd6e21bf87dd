"""Read a job's layout from its manifest."""

from collections.abc import Mapping
from typing import Final

from schemas.vocabulary import OP_CODES, PUBLISHED_TRACE_FORMAT, RANK_LOG_FORMAT, TRANSFER_OPS, Transfers
from udfs.kernel.graph.graph import Blocking, Layout

LARGEST: Final = 2**31 - 1
"""Sizes are stored as 32-bit integers."""


class LayoutError(ValueError):
    """Raised if a size is missing or wrong, or if sizes contradict world_size; its text names the field."""


def read_layout(manifest: Mapping[str, object]) -> Layout:
    """Read the layout of a run from its manifest; dsp_size, its name in published traces, is read as cp_size.

    raises : LayoutError.
    """
    names = ("dp_size", "pp_size", "tp_size", "vpp_size", "world_size")
    sizes = {name: _size(manifest, name) for name in names}
    cp_name = "dsp_size" if manifest.get("cp_size") is None and "dsp_size" in manifest else "cp_size"
    sizes["cp_size"] = _size(manifest, cp_name)
    product = sizes["dp_size"] * sizes["pp_size"] * sizes["tp_size"] * sizes["cp_size"]
    if product != sizes["world_size"]:
        raise LayoutError(
            f"world_size is {sizes['world_size']}, but dp_size x pp_size x tp_size x cp_size = "
            f"{sizes['dp_size']} x {sizes['pp_size']} x {sizes['tp_size']} x {sizes['cp_size']} = {product}"
        )
    blocking, stated = None, manifest.get("blocking_transfers")
    if stated is not None:
        if not isinstance(stated, list | tuple) or not all(each in TRANSFER_OPS for each in stated):
            raise LayoutError(f"blocking_transfers is {stated!r}, wanted a list of {', '.join(TRANSFER_OPS)}")
        blocking = Blocking(tuple(sorted({OP_CODES[each] for each in stated})))
    return Layout(sizes["dp_size"], sizes["pp_size"], sizes["cp_size"], sizes["vpp_size"], blocking)


def is_partial(manifest: Mapping[str, object]) -> bool:
    """Return whether the manifest says that the unit's transfers were not measured."""
    return manifest.get("transfers") in (Transfers.ABSENT, Transfers.INFERRED)


def is_foreign(manifest: Mapping[str, object]) -> bool:
    """Return whether the manifest says that another tool recorded the unit."""
    return manifest.get("source_format") not in (None, RANK_LOG_FORMAT, PUBLISHED_TRACE_FORMAT)


def _size(manifest: Mapping[str, object], name: str) -> int:
    value = manifest.get(name)
    if value is None:
        raise LayoutError(f"{name} is missing")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise LayoutError(f"{name} is {value!r}, but must be a whole number from 1 to {LARGEST}")
    return value
