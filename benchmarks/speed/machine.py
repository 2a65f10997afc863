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


@dataclass(frozen=True)
class Machine:
    """What decides how fast a step is."""

    cpu: str
    instructions: str
    """The instructions that torch's kernels use, such as ``"AVX2"``."""
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
    info = Path("/proc/cpuinfo")  # where Linux has it
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def this_machine() -> Machine:
    """Describe this machine."""
    return Machine(
        cpu=cpu_model(),
        instructions=torch.backends.cpu.get_cpu_capability(),
        vnni=torch.cpu._is_vnni_supported(),
        cores=all_cores(),
        python=platform.python_version(),
        torch=torch.__version__,
        kernels=native.current_kernels(),
        auto=resolve("auto").value,
        peers={peer.package: version_of(peer) for peer in PEERS.values() if peer.package != "torch"},
    )
