"""The machine that figures were taken on."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.speed.peers import PEERS, version_of
from benchmarks.speed.settings import all_cores
from bitcycle.arithmetic.execution import resolve
from bitcycle.kernels import native

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8")
"""What decides how fast the kernels and the integer products are."""


@dataclass(frozen=True)
class Machine:
    """What decides how fast a step is."""

    cpu: str
    flags: tuple[str, ...]
    """Those of :data:`FLAGS` that it has; empty if the system does not tell."""
    vnni: bool
    cores: int
    python: str
    torch: str
    kernels: str
    """``"native"`` or ``"reference"``."""
    auto: str
    """What ``execute="auto"`` means here."""
    peers: dict[str, str | None]
    """The versions of other libraries; None if they are not installed."""


def cpu_model() -> str:
    """Return the name of the CPU."""
    return _cpu_info("model name") or platform.processor() or platform.machine()


def this_machine() -> Machine:
    """Describe this machine."""
    flags = _cpu_info("flags").split()
    return Machine(
        cpu=cpu_model(),
        flags=tuple(flag for flag in FLAGS if flag in flags),
        vnni=torch.cpu._is_vnni_supported(),
        cores=all_cores(),
        python=platform.python_version(),
        torch=torch.__version__,
        kernels=native.current_kernels(),
        auto=resolve("auto").value,
        peers={peer.package: version_of(peer) for peer in PEERS.values() if peer.package != "torch"},
    )


def _cpu_info(key: str) -> str:
    """Return what Linux tells about the first core; nothing on other systems."""
    info = Path("/proc/cpuinfo")
    found = re.search(rf"^{key}\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1].strip() if found else ""
