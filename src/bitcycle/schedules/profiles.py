"""Profiles: growth curves g on [0, 1] that a schedule follows from q_min up to q_max.

A profile is a registered pure function of an array ``z``; its further arguments are parameters. :func:`profile`
registers one.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest, validate_name
from bitcycle._support.text import short_repr

GrowthCurve = Callable[..., NDArray[np.float64]]
F = TypeVar("F", bound=Callable[..., object])

PROFILES: dict[str, GrowthCurve] = {}
"""The registered curves by name."""

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Profile:
    """A registered curve with its parameters. :meth:`of` makes one.

    Args:
        name: The name of the curve.
        parameters: Names and values of all its parameters, in the order of the curve's signature.

    Example:
        >>> import numpy as np
        >>> Profile.of("linear")(np.array([0.0, 0.5])).tolist(), Profile.of("rex").parameters
        ([0.0, 0.5], (('constant', 0.9),))
    """

    name: str
    parameters: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, name: str, /, **parameters: float) -> Profile:
        """Return the profile of a name, with its parameters checked and completed by their defaults.

        Args:
            name: The name of a registered curve.
            **parameters: Parameters that differ from their defaults.

        Returns:
            The profile.

        Raises:
            ValueError: If there is no such profile or parameter, or if these parameters do not give a growth curve.

        Example:
            >>> Profile.of("exponential", rate=5).parameters
            (('rate', 5.0),)
        """
        known = defaults(name, PROFILES[validate_name(name, PROFILES, "profile")])
        for key, value in parameters.items():
            if key not in known:
                hint = nearest(key, ("cycles", *known))  # which a spec sets in the same way
                raise ValueError(f"profile {name} has no parameter {short_repr(key)}; {hint}")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
                raise ValueError(f"{key} of profile {name} must be a finite number, got {short_repr(value)}")
        # -0.0 becomes 0.0, so that equal profiles have equal specs
        complete = {key: float(parameters.get(key, default)) + 0.0 for key, default in known.items()}
        _check_curve(name, PROFILES[name], complete)
        return cls(name, tuple(complete.items()))

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return g(z), element by element."""
        return PROFILES[self.name](z, **dict(self.parameters))

    def changed(self) -> dict[str, float]:
        """Return the parameters that differ from their defaults, which a spec has to name."""
        known = defaults(self.name, PROFILES[self.name])
        return {key: value for key, value in self.parameters if value != known[key]}


def profile(name: str) -> Callable[[F], F]:
    """Register a growth curve, as a decorator. It is then available in specs in every shape.

    A growth curve takes an array ``z`` of values in [0, 1] and returns an array of the same shape, with g(0) = 0 and
    all values in [0, 1]. Keyword arguments with defaults become parameters that a spec can set.

    Args:
        name: The name in specs: one word of letters, digits and underscores.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        ValueError: If the name is not one word, or the function is not a growth curve.

    Example:
        >>> from bitcycle.schedules import schedule
        >>> @profile("power")
        ... def power(z, exponent=2.0):
        ...     return z**exponent
        >>> schedule("power-repeated:3-8:cycles=1")(500, 1000)
        4
        >>> str(schedule("power-fall:3-8:exponent=3"))
        'power-fall-h:3-8:exponent=3.0'
    """
    if not name.isidentifier():
        raise ValueError(f"the name of a profile must be one word of letters, digits and _, got {short_repr(name)}")

    def register(curve: F) -> F:
        _check_curve(name, curve, defaults(name, curve))
        PROFILES[name] = curve  # type: ignore[assignment]
        return curve

    return register


def defaults(name: str, curve: Callable[..., object]) -> dict[str, float]:
    """Return the parameters of a profile with their default values."""
    arguments = list(inspect.signature(curve).parameters.values())[1:]
    for argument in arguments:
        if isinstance(argument.default, bool) or not isinstance(argument.default, (int, float)):
            raise ValueError(f"the parameter {argument} of profile {name} must have a number as its default")
        if argument.name == "cycles":
            raise ValueError(f"profile {name} must not have a parameter named cycles: a spec sets the cycles with it")
    return {argument.name: float(argument.default) for argument in arguments}


def _check_curve(name: str, curve: Callable[..., object], parameters: dict[str, float]) -> None:
    """Raise a ValueError if the profile is not a growth curve."""
    z = np.linspace(0.0, 1.0, 257)
    with np.errstate(all="ignore"):
        values = np.asarray(curve(z, **parameters))
    settings = ", ".join(f"{key}={value:g}" for key, value in parameters.items())
    label = f"profile {name}" + (f" with {settings}" if settings else "")
    if values.shape != z.shape:
        raise ValueError(f"{label} must return one value for each input: expected shape {z.shape}, got {values.shape}")
    if not (np.isfinite(values).all() and values.min() >= -_TOLERANCE and values.max() <= 1 + _TOLERANCE):
        raise ValueError(f"{label} leaves [0, 1]: a growth curve starts at g(0) = 0 and stays between 0 and 1")
    if abs(values[0]) > _TOLERANCE or values[-1] <= values[0]:
        raise ValueError(f"{label} does not grow from 0: g(0) = {values[0]:g}, g(1) = {values[-1]:g}")


@profile("cosine")
def cosine(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(z) = (1 - cos(pi z)) / 2, with mean 0.5."""
    return (1 - np.cos(np.pi * z)) / 2


@profile("linear")
def linear(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(z) = z, with mean 0.5."""
    return z


@profile("exponential")
def exponential(z: NDArray[np.float64], rate: float = 4.0) -> NDArray[np.float64]:
    """g(z) = 1 - exp(-rate z). At the default rate the mean is 0.755 and g(1) = 0.98."""
    return 1 - np.exp(-rate * z)


@profile("rex")
def rex(z: NDArray[np.float64], constant: float = 0.9) -> NDArray[np.float64]:
    """g(z) = 1 - u / ((1 - c) + c u) with u = 1 - z.

    The mean is 0.173 at the default c = 0.9. The REX learning rate has c = 0.5.
    """
    u = 1 - z
    return 1 - u / ((1 - constant) + constant * u)
