"""The ``bitcycle`` application: all commands, and how errors are shown."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bitcycle import __version__
from bitcycle._support.extras import MissingExtraError, need

if TYPE_CHECKING:
    import typer

COMMANDS = (
    *("schedules", "cost", "tasks", "train", "study", "deficit", "results", "report", "range_test", "advise"),
    *("export", "export.deploy_check", "data", "tasks.task"),
)
"""The commands and groups of commands, in the order of the help: a module, and the object in it unless it has the name
of the module."""


def main() -> None:
    """Run the command ``bitcycle``."""
    run(application, "bitcycle")


def run(build: Callable[[], typer.Typer], name: str) -> None:
    """Run a command line. A mistake of the user gives one line on stderr and exit code 2, not a traceback.

    Args:
        build: Builds the application.
        name: The command as the user writes it, for messages.
    """
    try:
        need("typer", "cli", "the command line")
        import typer

        _end_as_with_ctrl_c("SIGTERM", "SIGHUP")
        reason = ""
        usage_error: Any = typer.BadParameter.__mro__[2]  # ClickException, which typer does not export
        try:
            code = build()(prog_name=name, standalone_mode=False)
        except usage_error as error:
            _print_usage_error(error, name)
            code = error.exit_code
        except (typer.Abort, KeyboardInterrupt) as error:  # a progress bar says what is done
            code, reason = 130, str(error)
        if code == 130:
            print("bitcycle: stopped" + (f": {reason}" if reason else ""), file=sys.stderr)
    except (ValueError, OSError, MissingExtraError) as error:
        print(f"bitcycle: {error}", file=sys.stderr)
        code = 2
    sys.exit(code)


def _end_as_with_ctrl_c(*names: str) -> None:
    """Let these signals end the program as Ctrl-C does: what is under way is put in order, and a line says so.

    A signal that is ignored, as ``nohup`` does with SIGHUP, stays ignored.
    """
    for name in names:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _print_usage_error(error: Any, name: str) -> None:
    message = error.format_message().rstrip(".").replace(": Value error, ", ": ")  # how typer shows a ValueError
    if not message:  # no arguments were given, and the help has been printed
        return
    command = error.ctx.command_path if error.ctx else name
    print(f"bitcycle: {message[0].lower()}{message[1:]}; see '{command} --help'", file=sys.stderr)


def application() -> typer.Typer:
    """Return the typer application with all commands."""
    import typer

    app = typer.Typer(
        name="bitcycle",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",  # wraps the help at the width of the terminal
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            installed = find_spec("bitcycle.kernels._native") is not None
            found = "installed" if installed else "not installed (no C compiler was found)"
            print(f"bitcycle {__version__}\nnative kernels: {found}")
            raise typer.Exit

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Print the version and exit."
        ),
    ) -> None:
        """Schedules for numerical precision during training."""

    for name in COMMANDS:
        module, _, attribute = name.partition(".")
        command = getattr(import_module(f"bitcycle.cli.{module}"), attribute or module)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=attribute or module)
        else:
            app.command()(command)
    return app
