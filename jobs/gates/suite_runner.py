"""Runner of suites with Great Expectations, in a separate process; see suites.py."""

import os
import pickle
import sys
from contextlib import suppress
from typing import Any

import great_expectations as gx
import pyarrow as pa
from great_expectations.core import ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.exceptions.exceptions import GreatExpectationsError
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

from jobs.gates.checks import GateError, Rule
from jobs.gates.suites import Suite
from jobs.runtime.settings import SettingsError

_PLACE = "place"


def serve() -> None:
    """Judge each pickled suite and its rows from standard input; write pickled results to standard output."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of libraries must not come between the results
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            suite, rows = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the process that started this one
            found: object
            try:
                found = judged(suite, rows)
            except (GateError, SettingsError) as error:
                found = error
            except Exception as error:  # noqa: BLE001 - raised again where the results are read
                found = GateError(f"{suite.file}: could not be run: {type(error).__name__}: {error}")
            pickle.dump(found, results)
            results.flush()


def judged(suite: Suite, rows: pa.Table) -> list[Rule]:
    """Run a suite; return a rule for each expectation, in the order of the file.

    Raises SettingsError for an expectation that Great Expectations does not accept, GateError for one that
    it cannot evaluate, which never counts as a pass.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas(suite.table).add_dataframe_asset(suite.table)
    definition = asset.add_batch_definition_whole_dataframe(suite.table)
    batch = definition.get_batch({"dataframe": rows.to_pandas()})
    every_row = {"result_format": "COMPLETE", "include_unexpected_rows": False}
    by_place = {}
    for each in batch.validate(_as_suite(suite), result_format=every_row).results:
        asked = each.expectation_config
        by_place[int(asked.meta[_PLACE]) if asked and asked.meta else -1] = each
    return [_rule(suite, number, by_place[number], rows) for number in range(len(suite.expectations))]


def _as_suite(suite: Suite) -> gx.ExpectationSuite:
    made = []
    for number, each in enumerate(suite.expectations):
        where = f"{suite.file}: expectations.{number}"
        asked = ExpectationConfiguration(type=each.type, kwargs=each.kwargs, meta={_PLACE: number})
        try:
            made.append(asked.to_domain_obj())
        except GreatExpectationsError:
            raise SettingsError(f"{where}.type: Great Expectations has no {each.type}") from None
        except ValueError as error:
            stated: list[Any] = getattr(error, "errors", list)()  # of pydantic 1, which the library brings
            why = str(error).splitlines()[0]
            if stated:
                why = f"{'.'.join(map(str, stated[0]['loc']))}: {stated[0]['msg']}"
            raise SettingsError(f"{where}.kwargs.{why}") from None
    return gx.ExpectationSuite(name=suite.file, expectations=made)


def _rule(suite: Suite, number: int, result: ExpectationValidationResult, rows: pa.Table) -> Rule:
    """Return a result of Great Expectations as a Rule, with the rows that break the expectation.

    If an expectation about all rows together fails, the only row of its Rule has the observed value.
    """
    each = suite.expectations[number]
    info = result.exception_info or {}
    layers = [info, *(layer for layer in info.values() if isinstance(layer, dict))]  # a metric's is nested
    messages = [str(layer["exception_message"]) for layer in layers if layer.get("exception_message")]
    if messages:
        reason = messages[0].strip().splitlines()[0]
        raise GateError(f"{suite.file}: expectations.{number} ({each.type}) could not be evaluated: {reason}")
    broken = rows.slice(0, 0)
    if not result.success:
        places = result.result.get("unexpected_index_list")
        observed = pa.table({"observed": [str(result.result.get("observed_value"))]})
        broken = rows.take(places) if places else observed
    same = sum(other.name == each.name for other in suite.expectations[:number])
    name = f"{each.name}-{same + 1}" if same else each.name
    return Rule(name, broken, suite.table, each.meaning, each.effect)
