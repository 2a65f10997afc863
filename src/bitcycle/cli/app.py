"""``bitcycle``: the commands put together, and how errors reach the user."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bitcycle import __version__
from bitcycle._support.extras import MissingExtraError, need

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Run the command line: what the user got wrong is one line and exit code 2, not a traceback."""
    try:
        need("typer", "cli", "the command line")
        application()()
    except (ValueError, OSError, MissingExtraError) as error:
        print(f"bitcycle: {error}", file=sys.stderr)
        sys.exit(2)


def application() -> typer.Typer:
    """All commands as one typer application."""
    import typer

    from bitcycle.cli.advise import advise
    from bitcycle.cli.cost import cost
    from bitcycle.cli.data import data
    from bitcycle.cli.deficit import deficit
    from bitcycle.cli.range_test import range_test
    from bitcycle.cli.results import report, results
    from bitcycle.cli.schedules import schedules
    from bitcycle.cli.study import study
    from bitcycle.cli.train import tasks, train

    app = typer.Typer(
        name="bitcycle",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            print(f"bitcycle {__version__}")
            raise typer.Exit

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Print the version and exit."
        ),
    ) -> None:
        """Numerical precision as a training schedule."""

    app.command()(schedules)
    app.command()(cost)
    app.command()(tasks)
    app.command()(train)
    app.command()(study)
    app.command()(deficit)
    app.command()(results)
    app.command()(report)
    app.command()(range_test)
    app.command()(advise)
    app.add_typer(data, name="data")
    return app
