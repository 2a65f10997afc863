"""Engines train the runs of a study: processes on one machine, or a Ray cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bitcycle.lab.studies.driver import Engine


class EngineKind(StrEnum):
    """The engines, by name."""

    LOCAL = "local"
    RAY = "ray"


def engine_of(kind: EngineKind | str, workers: int, threads: int, device: str, address: str, gpus: float) -> Engine:
    """Return an engine.

    Args:
        kind: Train on this machine, or on a Ray cluster.
        workers: Processes on this machine; 0 = one per core.
        threads: Threads of each run; 0 = its share of the cores.
        device: The device on this machine.
        address: The address of a Ray cluster; ``auto`` finds one; empty starts one on this machine.
        gpus: GPUs for each run on a cluster.

    Raises:
        ValueError: If an argument is wrong.
    """
    # Engines and devices are imported here because they load ray and torch.
    if kind not in tuple(EngineKind):
        raise ValueError(f"the engine must be {' or '.join(map(repr, map(str, EngineKind)))}, got {kind!r}")
    if kind == EngineKind.RAY:
        from bitcycle.lab.studies.engines.cluster import RayEngine

        return RayEngine(address, max(1, threads), gpus)
    if address or gpus:
        raise ValueError("address and gpus need the engine 'ray'")
    from bitcycle.lab.runs.training import check_device
    from bitcycle.lab.studies.engines.local import LocalEngine

    check_device(device)
    return LocalEngine(workers, threads, device)
