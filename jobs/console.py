"""The one console command: `straggler NAME ...` starts the command of that name.

A command's module is imported when it is called: help and questions start no JVM and import no Spark.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from jobs.runtime.arguments import Command, run


class _Entry(NamedTuple):
    """A command: its module in jobs/, and its description in one line."""

    module: str
    meaning: str


GROUPS: Final[dict[str, dict[str, _Entry]]] = {
    "One run": {
        "analyse": _Entry("analyse", "how slow a run is, why, and what a fix saves, straight from its logs"),
        "convert": _Entry("convert", "reads logs of another tool: prints a summary, or writes rank logs"),
        "convert-health": _Entry(
            "convert_health", "health of hosts from DCGM, NVSentinel, Slurm and others, for a landing"
        ),
        "diff": _Entry("diff_runs", "what made a run slower than another: two folders, runs or days"),
        "job-page": _Entry("report_job", "the page of one job of the warehouse"),
        "what-if": _Entry("what_if", "one unit of the warehouse with some of its ops ideal or scaled"),
        "mitigate": _Entry("mitigate_job", "what moving layers, balancing or planned pauses would save"),
        "timeline": _Entry("export_timeline", "one step as recorded, replayed and ideal, for Perfetto"),
    },
    "Ask the warehouse": {
        "query": _Entry("query", "SQL over tables and views"),
        "headline": _Entry("named_query", "a headline figure over any period"),
        "cookbook": _Entry("cookbook", "the cookbook's questions, answered by this warehouse"),
        "describe": _Entry("describe", "what tables, views and columns mean"),
        "drain": _Entry("drain_hosts", "which host to drain now, what that returns, and what it costs"),
        "changes": _Entry("job_changes", "since which day a job takes longer, and what changed with it"),
        "fix-effect": _Entry("fix_effect", "before and after a date: did the fix help?"),
        "report": _Entry("report_fleet", "the report of a day, as the night writes it"),
        "serve": _Entry("serve_pages", "the report in a browser: a page for every job, made when asked for"),
        "mcp": _Entry("serve_agents", "answers for agents, by the Model Context Protocol"),
        "register": _Entry(
            "register_tables", "what Spark, Unity, Glue, Trino or DuckDB need to see the tables"
        ),
        "export": _Entry("export_database", "all tables and views as one DuckDB file"),
    },
    "Run the nights": {
        "night": _Entry("run_nightly", "a whole night: the five phases below"),
        "ingest": _Entry("ingest_rank_logs", "logs into the warehouse"),
        "simulate": _Entry("simulate_what_if", "each unit's slowdown and causes"),
        "revise": _Entry("revise_causes", "causes decided by other jobs and earlier days"),
        "aggregate": _Entry("aggregate_fleet", "the fleet, day by day"),
        "publish": _Entry("publish_night", "checks all tables against each other; the report"),
        "release": _Entry("release_night", "releases what a gate refused"),
    },
    "History and upkeep": {
        "backfill": _Entry("backfill", "phases of the night over a range of days, where not done"),
        "refresh": _Entry("refresh_changed_days", "late and corrected logs of the days before"),
        "maintain": _Entry("maintain_tables", "old recorded ops expire, small files become few"),
        "compare": _Entry("compare_versions", "what a new version changes, before it becomes current"),
    },
    "Try it out": {
        "demo": _Entry("make_demo", "three nights of a small generated fleet; from a checkout"),
        "fleet": _Entry("make_fleet", "a generated fleet with known truth, in a landing"),
    },
}
"""All commands by what they are for."""

COMMANDS: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}

_COMPLETION: Final = (
    "\b\nCompletion of names and options, in the shell's start-up file:\n"
    '  bash: eval "$(_STRAGGLER_COMPLETE=bash_source straggler)"\n'
    '  zsh:  eval "$(_STRAGGLER_COMPLETE=zsh_source straggler)"'
)


class _Console(click.Group):
    """All commands; only the one called is imported."""

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
    help="Which training jobs straggle, why, and what fixing it saves. "
    "`straggler NAME --help` lists the arguments of a command.",
    epilog=_COMPLETION,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; returns its exit status."""
    return run(CONSOLE, argv)


if __name__ == "__main__":
    sys.exit(main())
