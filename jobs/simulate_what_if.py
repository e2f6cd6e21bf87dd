"""Simulate: what each unit of the given days would have cost without stragglers.

rank_steps, jobs -> job_slowdown and its companions.
"""

import sys
from collections.abc import Sequence
from datetime import date

from pyspark.sql import SparkSession

from jobs.cli import days_parser, run_entry_point
from jobs.settings import Settings
from jobs.stage import Violations, publish
from jobs.transforms.what_if import incomplete_units, result_rows, what_if
from jobs.warehouse import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOBS, RANK_STEPS
