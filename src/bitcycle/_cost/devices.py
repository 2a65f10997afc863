"""Bit-widths on real hardware: a small table of devices, for estimates of time.

Hardware supports a few widths. A product runs at the narrowest one that holds both operands, so 5 to 8 bits run as 8.
Floating-point formats have rates of their own; on hardware without them, their products run in 16 bits.
The rates are the manufacturers' peak rates of dense products, in 10^12 operations per second. Real programs reach only
a part of them, and everything that is not a product takes time too. BitOps measure the cost; time is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Rates = dict[int, float]
"""The rate of each width, narrowest first; the last is that of full precision."""


@dataclass(frozen=True)
class Device:
    """A device with its peak rates by operand width.

    Args:
        name: The name that :meth:`bitcycle.Cost.time_ratio` accepts.
        source: Where the rates come from.
        rates: The rates of integers. Empty for a device whose time is proportional to BitOps.
        formats: The rates on other grids by name, such as ``{"mx": {4: 2.0, 32: 1.0}}``. A grid that is not listed runs
            at the rates of 16 bits and more.

    Example:
        >>> device = Device("mine", "an example", {8: 2.0, 32: 1.0})
        >>> device.time(100, 5, 8), device.time(100, 5, 9)
        (50.0, 100.0)
        >>> DEVICES["h100"].time(1979, 8, 8, "float"), DEVICES["a100"].time(312, 8, 8, "float")
        (1.0, 1.0)
    """

    name: str
    source: str
    rates: Rates
    formats: dict[str, Rates] = field(default_factory=dict)

    def time(self, macs: int, a: int, b: int, grid: str = "integer") -> float:
        """Return the time of a product, in units that are comparable on one device only.

        Args:
            macs: Multiply-accumulates of the product.
            a: Width of the first operand.
            b: Width of the second operand.
            grid: What the widths mean, see :mod:`bitcycle.grids`.

        Returns:
            ``macs / rate`` at the narrowest width that holds both operands.
        """
        if not self.rates:
            return macs * a * b
        wide = {width: rate for width, rate in self.rates.items() if width >= 16}
        rates = self.rates if grid in ("integer", "symmetric") else self.formats.get(grid, wide)
        return macs / next((rate for width, rate in rates.items() if width >= max(a, b)), rates[max(rates)])


_H100 = {8: 1979.0, 16: 989.0, 32: 494.0}
_B200 = {8: 4500.0, 16: 2250.0, 32: 1100.0}
_MI355X = {8: 5033.0, 16: 2517.0, 32: 157.3}
_B200_FLOAT = {4: 9000.0, 6: 4500.0, **_B200}
_MI355X_FLOAT = {4: 10_066.0, 6: 10_066.0, **_MI355X}

_KNOWN = (
    Device("t4", "NVIDIA T4 data sheet: INT4, INT8, FP16, FP32", {4: 260.0, 8: 130.0, 16: 65.0, 32: 8.1}),
    Device(
        "a100",
        "NVIDIA A100 data sheet: INT4, INT8, FP16, TF32 tensor cores",
        {4: 1248.0, 8: 624.0, 16: 312.0, 32: 156.0},
    ),
    Device(
        "h100",
        "NVIDIA H100 SXM data sheet: INT8, FP8, FP16, TF32; without blocks of 4 bits, which run in FP16",
        _H100,
        {"float": _H100, "nvfp4": {4: _H100[16], **_H100}},
    ),
    Device(
        "b200",
        "one GPU of HGX B200 at 1000 W, from a secondary page, glennklockwood.com/garden/processors/B200: FP4, FP6, "
        "FP8, INT8, FP16, TF32",
        _B200,
        dict.fromkeys(("float", "mx", "nvfp4"), _B200_FLOAT),
    ),
    Device(
        "mi355x",
        "AMD Instinct MI355X: MXFP8 = 256 compute units x 8192 operations x 2.4 GHz, FP16 half of it, MXFP4 and MXFP6 "
        "twice, INT8 as FP8, FP32 vector 157.3, from secondary pages; NVFP4 runs in FP16",
        _MI355X,
        {"float": _MI355X_FLOAT, "mx": _MI355X_FLOAT, "nvfp4": {4: _MI355X[16], **_MI355X}},
    ),
    Device("vnni", "AVX-512 VNNI: four 8-bit products in place of one 32-bit product", {8: 4.0, 32: 1.0}),
    Device("bit-serial", "an ideal machine whose time is proportional to BitOps", {}),
)

DEVICES = {device.name: device for device in _KNOWN}
"""The known devices by name."""
