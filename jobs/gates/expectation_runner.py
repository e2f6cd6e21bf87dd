"""Run expectations with Great Expectations on a Spark DataFrame. Its import takes seconds: see audit."""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import great_expectations as gx
from great_expectations.core import ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation
from pyspark.sql import DataFrame

from jobs.gates.checks import GateError

for _chatty in (gx.__name__, "great_expectations.data_context.types.base"):  # this sets its level itself
    logging.getLogger(_chatty).setLevel(logging.WARNING)


class ExpectNoRows(UnexpectedRowsExpectation):
    """Expectation that a query finds no rows; counts in one pass over the data, not two."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("unexpected_rows_query.row_count",)

    def _validate(self, metrics: dict[str, Any], *_: object, **__: object) -> dict[str, Any]:
        rows = metrics["unexpected_rows_query.row_count"]
        return {"success": rows == 0, "result": {"observed_value": rows}}


def count_rows(name: str, frame: DataFrame, queries: Mapping[str, str]) -> dict[str, int]:
    """Number of rows that each query finds, by name; `{batch}` in a query stands for the DataFrame.

    Raises GateError for the first query that could not be evaluated.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    source = context.data_sources.add_spark(name, persist=False)
    asset = source.add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": frame})
    expectations = [
        ExpectNoRows(unexpected_rows_query=query, meta={"name": each}) for each, query in queries.items()
    ]
    suite = gx.ExpectationSuite(name=name, expectations=expectations)
    return dict(_counted(name, result) for result in batch.validate(suite, result_format="BASIC").results)


def _counted(name: str, result: ExpectationValidationResult) -> tuple[str, int]:
    """Name of an expectation and its number of broken rows; raises GateError if it could not run."""
    configuration = result.expectation_config
    expectation = str((configuration.meta or {})["name"]) if configuration else "?"
    rows = result.result.get("observed_value")
    if not isinstance(rows, int):
        raise GateError(f"{name}: expectation {expectation} could not be evaluated: {_reason(result)}")
    return expectation, rows


def _reason(result: ExpectationValidationResult) -> str:
    """First line of the error; it lies one level deeper if a metric raised it."""
    info = result.exception_info
    layers = [info, *(each for each in info.values() if isinstance(each, dict))]
    messages = [str(layer["exception_message"]) for layer in layers if layer.get("exception_message")]
    return messages[0].strip().splitlines()[0] if messages else "no result"
