"""Engines train the runs of a study: processes on one machine, or a Ray cluster."""

from enum import StrEnum


class EngineKind(StrEnum):
    """The engines, as the command line names them."""

    LOCAL = "local"
    RAY = "ray"
