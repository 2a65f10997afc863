"""Bit-widths on real hardware: a small table of devices, for estimates of time.

Hardware supports a few widths. A product runs at the narrowest one that holds both operands, so 5 to 8 bits run as 8.
The rates are the manufacturers' peak rates of dense products, in 10^12 operations per second. Real programs reach only
a part of them, and everything that is not a product takes time too. BitOps measure the cost; time is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

from bitcycle._support.names import nearest


@dataclass(frozen=True)
class Device:
    """A device with its peak rates by operand width.

    Args:
        name: The name that :meth:`Cost.time_ratio <bitcycle._cost.Cost.time_ratio>` accepts.
        rates: ``(width, rate)`` pairs, narrowest first; the last is the rate of full precision. Empty for a device
            whose time is proportional to BitOps.
        source: Where the rates come from.

    Example:
        >>> device = Device("mine", ((8, 2.0), (32, 1.0)), "an example")
        >>> device.time(100, 5, 8), device.time(100, 5, 9)
        (50.0, 100.0)
    """

    name: str
    rates: tuple[tuple[int, float], ...]
    source: str

    def time(self, macs: int, a: int, b: int) -> float:
        """Return the time of a product, in units that are comparable on one device only.

        Args:
            macs: Multiply-accumulates of the product.
            a: Width of the first operand.
            b: Width of the second operand.

        Returns:
            ``macs / rate`` at the narrowest width that holds both operands.
        """
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
        Device("vnni", ((8, 4.0), (32, 1.0)), "AVX-512 VNNI: four 8-bit products in place of one 32-bit product"),
        Device("bit-serial", (), "an ideal machine whose time is proportional to BitOps"),
    )
}
"""The known devices by name."""


def device_named(name: str) -> Device:
    """Return the device of a name, or raise a ValueError if it is unknown."""
    if name not in DEVICES:
        raise ValueError(f"unknown device {name!r}; {nearest(name, DEVICES)}")
    return DEVICES[name]
