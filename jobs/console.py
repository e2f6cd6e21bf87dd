"""The console command: `straggler NAME ...` runs the command of that name.

Only the module of the command that is called is imported, so that help and questions start without Spark
and without a JVM.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from jobs.runtime.arguments import Command, end_interrupted, run


class _Entry(NamedTuple):
    """One command: its module in jobs/, and a one-line description."""

    module: str
    meaning: str


GROUPS: Final[dict[str, dict[str, _Entry]]] = {
    "One run": {
        "analyse": _Entry("analyse", "print how slow a run is, why, and the time a fix saves, from its logs"),
        "convert": _Entry("convert", "convert another tool's logs to rank logs, or print a summary of them"),
        "convert-health": _Entry(
            "convert_health",
            "convert reports on hosts by DCGM, NVSentinel, Slurm and others, for a landing",
        ),
        "diff": _Entry("diff_runs", "print why one run is slower than another: two folders, runs or days"),
        "job-page": _Entry("report_job", "write the page of one job of the warehouse"),
        "what-if": _Entry("what_if", "replay one unit of the warehouse with some ops ideal or scaled"),
        "mitigate": _Entry(
            "mitigate_job", "print the time that moved layers, balancing or planned pauses would save"
        ),
        "timeline": _Entry("export_timeline", "write one step as recorded, replayed and ideal, for Perfetto"),
    },
    "Ask the warehouse": {
        "query": _Entry("query", "run an SQL query over the tables and views"),
        "headline": _Entry("named_query", "print a headline figure over any period"),
        "cookbook": _Entry("cookbook", "run the cookbook's queries on this warehouse"),
        "describe": _Entry("describe", "print what tables, views and columns mean"),
        "drain": _Entry("drain_hosts", "print which host to drain now, what that saves, and what it costs"),
        "changes": _Entry(
            "job_changes", "print since which day a job takes longer, and what changed with it"
        ),
        "fix-effect": _Entry("fix_effect", "compare a job before and after a date: did the fix help?"),
        "report": _Entry("report_fleet", "write the report of a day, as the nightly run does"),
        "serve": _Entry(
            "serve_pages", "serve the report to a browser: a page for every job, made on request"
        ),
        "mcp": _Entry("serve_agents", "serve the warehouse to agents by the Model Context Protocol"),
        "register": _Entry(
            "register_tables", "print what Spark, Unity, Glue, Trino or DuckDB need to see the tables"
        ),
        "export": _Entry("export_database", "write all tables and views to one DuckDB file"),
    },
    "Run the nights": {
        "night": _Entry("run_nightly", "run a whole night: the five phases below"),
        "ingest": _Entry("ingest_rank_logs", "read rank logs into the warehouse"),
        "simulate": _Entry("simulate_what_if", "compute each unit's slowdown and causes"),
        "revise": _Entry("revise_causes", "decide causes by comparison with other jobs and earlier days"),
        "aggregate": _Entry("aggregate_fleet", "sum up the results of all jobs of a day"),
        "publish": _Entry("publish_night", "check all tables against each other; write the report"),
        "watch": _Entry("watch_landing", "warn of causes that begin or end in runs in progress"),
        "release": _Entry("release_night", "accept rows that a gate refused"),
    },
    "History and upkeep": {
        "backfill": _Entry("backfill", "run the missing phases of the night for a range of days"),
        "refresh": _Entry("refresh_changed_days", "process late and corrected logs of earlier days"),
        "maintain": _Entry("maintain_tables", "delete old recorded ops, merge small files of tables"),
        "compare": _Entry(
            "compare_versions", "print which results a new version changes, before they become current"
        ),
    },
    "Try it out": {
        "demo": _Entry("make_demo", "run three nights of a small generated fleet; needs a checkout"),
        "fleet": _Entry("make_fleet", "write a generated fleet with known faults to a landing"),
    },
}
"""All commands, grouped by purpose as `straggler --help` lists them."""

COMMANDS: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}

_COMPLETION: Final = (
    "\b\nCompletion of names and options, in the shell's start-up file:\n"
    '  bash: eval "$(_STRAGGLER_COMPLETE=bash_source straggler)"\n'
    '  zsh:  eval "$(_STRAGGLER_COMPLETE=zsh_source straggler)"'
)


class _Console(click.Group):
    """Group of all commands; only the module of the called command is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's
        if cmd_name not in COMMANDS:
            return None
        made: Command = import_module(f"jobs.{COMMANDS[cmd_name].module}").main
        return made

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for name, entry in COMMANDS.items():
            if args[0] != name and args[0].replace("-", "_") == entry.module:
                raise click.UsageError(f"No such command {args[0]!r}: it is called {name!r}.", ctx)
        if args[0] not in COMMANDS and args[0] in import_module("schemas.queries").QUERIES:
            raise click.UsageError(f"{args[0]!r} is a headline: straggler headline {args[0]}", ctx)
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> int:
        """Run the command that the arguments name; Ctrl-C, even during imports, prints one line."""
        try:
            status: int = super().invoke(ctx)
        except KeyboardInterrupt:
            return end_interrupted()
        return status

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's
        for purpose, entries in GROUPS.items():
            with formatter.section(purpose):
                formatter.write_dl([(name, entry.meaning) for name, entry in entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002  # click's
        return [
            CompletionItem(name, help=entry.meaning)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]


CONSOLE: Final = _Console(
    "straggler",
    help="Which training jobs straggle, why, and how much time a fix saves. "
    "`straggler NAME --help` lists the arguments of a command.",
    epilog=_COMPLETION,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named by the arguments; return its exit status."""
    return run(CONSOLE, argv)


if __name__ == "__main__":
    sys.exit(main())
