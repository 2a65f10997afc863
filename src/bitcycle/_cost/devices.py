"""Bit-widths on real hardware: a small table of devices, for estimates of time.

Hardware supports a few widths. A product runs at the narrowest one that holds both operands, so 5 to 8 bits run as 8.
Floating-point formats have rates of their own; on hardware without them, their products run in 16 bits.
The rates are the manufacturers' peak rates of dense products, in 10^12 operations per second. Real programs reach only
a part of them, and everything that is not a product takes time too. BitOps measure the cost; time is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

Rates = tuple[tuple[int, float], ...]
"""``(width, rate)`` pairs, narrowest first; the last is the rate of full precision."""
INTEGERS = ("integer", "symmetric")
NARROWEST_FLOAT = 16


@dataclass(frozen=True)
class Device:
    """A device with its peak rates by operand width.

    Args:
        name: The name that :meth:`Cost.time_ratio <bitcycle._cost.Cost.time_ratio>` accepts.
        rates: The rates of integers. Empty for a device whose time is proportional to BitOps.
        source: Where the rates come from.
        formats: The rates on other grids by name, such as ``("mx", ((4, 2.0), (32, 1.0)))``. A grid that is not listed
            runs at the rates of 16 bits and more.

    Example:
        >>> device = Device("mine", ((8, 2.0), (32, 1.0)), "an example")
        >>> device.time(100, 5, 8), device.time(100, 5, 9)
        (50.0, 100.0)
    """

    name: str
    rates: Rates
    source: str
    formats: tuple[tuple[str, Rates], ...] = ()

    def on(self, grid: str) -> Device:
        """Return the device with the rates of a grid, see :mod:`bitcycle.grids`.

        >>> DEVICES["h100"].on("float").time(1979, 8, 8), DEVICES["a100"].on("float").time(312, 8, 8)
        (1.0, 1.0)
        """
        wide = tuple(pair for pair in self.rates if pair[0] >= NARROWEST_FLOAT)
        rates = self.rates if grid in INTEGERS else dict(self.formats).get(grid, wide)
        return replace(self, rates=rates)

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


_B200: Rates = ((4, 9000.0), (6, 4500.0), (8, 4500.0), (16, 2250.0), (32, 1100.0))
_MI355X: Rates = ((4, 10_066.0), (6, 10_066.0), (8, 5033.0), (16, 2517.0), (32, 157.3))

DEVICES = {
    device.name: device
    for device in (
        Device("t4", ((4, 260.0), (8, 130.0), (16, 65.0), (32, 8.1)), "NVIDIA T4 data sheet: INT4, INT8, FP16, FP32"),
        Device(
            "a100",
            ((4, 1248.0), (8, 624.0), (16, 312.0), (32, 156.0)),
            "NVIDIA A100 data sheet: INT4, INT8, FP16, TF32 tensor cores",
        ),
        Device(
            "h100",
            ((8, 1979.0), (16, 989.0), (32, 494.0)),
            "NVIDIA H100 SXM data sheet: INT8, FP8, FP16, TF32; without blocks of 4 bits, which run in FP16",
            (
                ("float", ((8, 1979.0), (16, 989.0), (32, 494.0))),
                ("nvfp4", ((4, 989.0), (8, 1979.0), (16, 989.0), (32, 494.0))),
            ),
        ),
        Device(
            "b200",
            _B200[2:],
            "one GPU of HGX B200 at 1000 W, from a secondary page, glennklockwood.com/garden/processors/B200: FP4, "
            "FP6, FP8, INT8, FP16, TF32",
            (("float", _B200), ("mx", _B200), ("nvfp4", _B200)),
        ),
        Device(
            "mi355x",
            _MI355X[2:],
            "AMD Instinct MI355X: MXFP8 = 256 compute units x 8192 operations x 2.4 GHz, FP16 half of it, MXFP4 and "
            "MXFP6 twice, INT8 as FP8, FP32 vector 157.3, from secondary pages; NVFP4 runs in FP16",
            (("float", _MI355X), ("mx", _MI355X), ("nvfp4", ((4, 2517.0), *_MI355X[2:]))),
        ),
        Device("vnni", ((8, 4.0), (32, 1.0)), "AVX-512 VNNI: four 8-bit products in place of one 32-bit product"),
        Device("bit-serial", (), "an ideal machine whose time is proportional to BitOps"),
    )
}
"""The known devices by name."""
