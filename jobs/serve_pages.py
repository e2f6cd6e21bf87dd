"""Serve the report to a browser; the page of each unit is made when it is requested, and nothing is written.

`straggler serve --warehouse W` listens only on 127.0.0.1.
"""

import sys

from jobs.entry_points.command import settings_entry_point
from jobs.runtime.arguments import Arguments, not_negative, option
from jobs.runtime.errors import WrongInputError
from jobs.runtime.loopback import LOOPBACK
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import say
from jobs.serving.pages import Pages
from jobs.serving.server import PageServer

_PORT = 8321


@settings_entry_point(
    "serve_pages", option("--port N", "port of 127.0.0.1; 0: a free one", not_negative, default=_PORT)
)
def main(settings: Settings, args: Arguments) -> None:
    """Show the report of any day in a browser, with a page for every job and run, made on request.

    Pages show the latest publication. The server answers only this machine, and writes nothing.
    """
    pages = Pages(settings)
    try:
        server = PageServer(pages, args.port)
    except (OSError, OverflowError) as error:
        raise WrongInputError(
            f"--port: {LOOPBACK}:{args.port} is not available: {error}; 0 takes a free one"
        ) from error
    with server:
        say(f"{server.address}; Ctrl+C ends")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("")


if __name__ == "__main__":
    sys.exit(main())
