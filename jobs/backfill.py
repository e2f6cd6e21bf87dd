"""Backfill: the stages of a night over a range of days, in blocks of days that share gates and commits."""

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from pyspark.sql import SparkSession
