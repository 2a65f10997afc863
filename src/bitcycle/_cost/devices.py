"""What a bit-width means on real hardware: a small table of devices, for estimates of time.

Hardware has a few widths; a product runs at the narrowest that holds both its operands, so 5 to 8 bits run as 8. The
figures are the makers' peak rates of dense products, in 10^12 operations a second; real programs reach a part of them,
and everything that is not a product takes time too. BitOps are the measure of cost; this is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

from bitcycle._support.names import nearest


@dataclass(frozen=True)
class Device:
    """Peak rates by width of the operands; the widest entry serves full precision."""

    name: str
    rates: tuple[tuple[int, float], ...]
    """(width, rate), narrowest first; empty for a device whose time is proportional to BitOps."""
    source: str

    def time(self, macs: int, a: int, b: int) -> float:
        """Time of a product, in arbitrary units that compare within a device."""
        if not self.rates:
            return macs * a * b
        widest = max(a, b)
        rate = next((rate for width, rate in self.rates if width >= widest), self.rates[-1][1])
        return macs / rate


DEVICES = {
    device.name: device
    for device in (
        Device("t4", ((4, 260.0), (8, 130.0), (16, 65.0), (32, 8.1)), "NVIDIA T4 data sheet: INT4, INT8, FP16, FP32"),
        Device(
            "a100",
            ((4, 1248.0), (8, 624.0), (16, 312.0), (32, 156.0)),
            "NVIDIA A100 data sheet: INT4, INT8, FP16, TF32 tensor cores",
        ),
        Device("h100", ((8, 1979.0), (16, 989.0), (32, 494.0)), "NVIDIA H100 SXM data sheet: INT8, FP16, TF32"),
        Device("vnni", ((8, 4.0), (32, 1.0)), "AVX-512 VNNI: four 8-bit products in the place of one 32-bit product"),
        Device("bit-serial", (), "an ideal machine whose time is proportional to BitOps"),
    )
}


def device_named(name: str) -> Device:
    """The device of that name."""
    if name not in DEVICES:
        raise ValueError(f"unknown device {name!r}; {nearest(name, DEVICES)}")
    return DEVICES[name]
