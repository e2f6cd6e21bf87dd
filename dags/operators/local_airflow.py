"""Local Airflow with this project's DAGs, for one user, on the loopback interface only.

    python -m dags.operators.local_airflow --home demo/airflow --landing demo/landing --warehouse demo/nights

All that it writes, such as its database and logs, is in its home folder. Ctrl-C ends it, with all processes
that it started.
"""

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.request import Request, urlopen

from dags import PROJECT
from dags.operators.spark_submit import POOL

HOST: Final = "127.0.0.1"
_COMPONENTS: Final = {
    "api-server": ("--host", HOST, "--workers", "1", "--port"),
    "scheduler": ("--skip-serve-logs",),  # else it serves its logs on every interface
    "dag-processor": (),
}
_START_S: Final = 180


class LocalAirflow:
    """Airflow's processes with a home folder of their own: `with LocalAirflow(...) as airflow`.

    home      : folder for its database, logs and settings
    port      : port on the loopback interface, for the web page and the API that tasks call
    variables : Airflow variables, as the DAGs read them
    settings  : environment variables of Airflow's settings; they override those that make it local
    """

    def __init__(
        self, home: Path, port: int, variables: Mapping[str, str], settings: Mapping[str, str] | None = None
    ) -> None:
        self.home, self.port = home.resolve(), port
        self.url = f"http://{HOST}:{port}"
        from_variables = {f"AIRFLOW_VAR_{name.upper()}": value for name, value in variables.items()}
        self.environment = {**os.environ, **self._settings(), **(settings or {}), **from_variables}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        self.command("db", "migrate")
        self.command("pools", "set", POOL, "1", "tasks that write tables")
        try:
            for component in _COMPONENTS:
                self.start(component)
        except BaseException:  # Ctrl-C among them
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process in self._processes.values():
            _signal(process, signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)

    def start(self, component: str) -> None:
        """Start one process in its own session; its output goes to a file in the home folder."""
        options = [*_COMPONENTS[component], *([str(self.port)] if component == "api-server" else [])]
        with (self.home / f"{component}.log").open("ab") as log:
            self._processes[component] = subprocess.Popen(  # noqa: S603  # this environment's own Airflow
                [_airflow(), component, *options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, component: str) -> None:
        """Kill one process, and all processes that it started, with SIGKILL."""
        process = self._processes.pop(component)
        _signal(process, signal.SIGKILL)
        process.wait()

    def command(self, *arguments: str) -> str:
        """Run an Airflow command; return its output. Raises RuntimeError if the command fails."""
        done = subprocess.run(  # noqa: S603  # this environment's own Airflow
            [_airflow(), *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            message = (done.stderr or done.stdout).strip()
            raise RuntimeError(f"airflow {' '.join(arguments)}: exit status {done.returncode}: {message}")
        return done.stdout

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401  # JSON
        """Send a request to Airflow's REST API; return the decoded answer."""
        headers = {"Content-Type": "application/json"}
        if not path.startswith("/auth"):
            headers["Authorization"] = f"Bearer {self.ask('/auth/token')['access_token']}"
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.url}{path}"
        request = Request(url, data, headers, method=method)  # noqa: S310  # our own address, of http
        with urlopen(request, timeout=30) as answer:  # noqa: S310  # the same
            return json.load(answer)

    def wait_for_dags(self, count: int) -> list[str]:
        """Wait until `count` DAGs are visible; return their ids. Raises RuntimeError on timeout."""
        deadline = time.monotonic() + _START_S
        found: list[str] = []
        while time.monotonic() < deadline:
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended:
                raise RuntimeError(f"airflow {ended[0]} has ended; {self.home / ended[0]}.log says why")
            try:
                found = [dag["dag_id"] for dag in self.ask("/api/v2/dags")["dags"]]
            except OSError:
                found = []
            if len(found) >= count:
                return found
            time.sleep(1)
        raise RuntimeError(f"only {found} of {count} DAGs after {_START_S} s; {self.home} has the logs")

    def _settings(self) -> dict[str, str]:
        return {
            "AIRFLOW_HOME": str(self.home),
            # Airflow's processes share one SQLite file, and wait for its lock for 60 s instead of 5.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}?timeout=60",
            "AIRFLOW__CORE__DAGS_FOLDER": str(Path(PROJECT, "dags")),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            # On a busy machine a task's first request takes longer than the usual 5 s, and it gives up.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(),
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }


def _airflow() -> str:
    return str(Path(sys.executable).with_name("airflow"))


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and its whole group."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def main() -> int:
    """Run until interrupted; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="local_airflow", description="Start a local Airflow with these DAGs."
    )
    parser.add_argument("--home", type=Path, required=True, help="folder for all that it writes")
    parser.add_argument("--port", type=int, default=8080, help="on the loopback interface (%(default)s)")
    parser.add_argument("--landing", type=Path, required=True, help="where the producers' logs lie")
    parser.add_argument("--warehouse", type=Path, required=True, help="where the tables go")
    args = parser.parse_args()
    folders = {"what_if_landing": args.landing, "what_if_warehouse": args.warehouse}
    variables = {name: str(folder.resolve()) for name, folder in folders.items()}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # its terminal is closed, without nohup
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    _say(f"starting, about a minute; its logs are in {args.home} ...")
    try:
        with LocalAirflow(args.home, args.port, variables) as airflow:
            dags = airflow.wait_for_dags(len(list(Path(PROJECT, "dags").glob("[!_]*.py"))))
            _say(f"{', '.join(sorted(dags))} are unpaused")
            _say(f"open {airflow.url} (this machine only, no login)")
            finished = sorted(marker.parent.name for marker in args.landing.glob("log_date=*/_SUCCESS"))
            days = [name.removeprefix("log_date=") for name in finished]
            range_of_days = " to ".join(dict.fromkeys(days[:1] + days[-1:])) or "none is finished yet"
            _say(f"trigger nightly_what_if with a day of the landing as its logical date: {range_of_days}")
            _say(
                "the night of yesterday, which starts by itself, waits for logs that do not exist; ignore it"
            )
            _say("Ctrl-C ends it")
            signal.pause()
    except KeyboardInterrupt:
        _say("ended")
    except RuntimeError as error:
        _say(str(error))
        return 1
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"airflow: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
