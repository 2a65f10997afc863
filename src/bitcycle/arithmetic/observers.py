"""Observers of the products that sites compute, for counting and for measuring.

Observers belong to a context (:mod:`contextvars`): a thread that counts one model does not observe a model that another
thread trains. Only forward computation is observed. Backward, which may run in a thread of autograd, is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bitcycle.arithmetic.precision import Role, role_of
from bitcycle.arithmetic.products import Counted

if TYPE_CHECKING:
    from bitcycle.arithmetic.site import Site


class Observer:
    """Receives what sites do in eager mode inside :func:`observing`. By default it ignores everything."""

    def rounded(self, site: Site, operand: str, before: Tensor, after: Tensor) -> None:
        """Receive an operand before and after it was rounded to the grid."""

    def multiplied(self, site: Site, product: Counted, a: Tensor, b: Tensor | None, out: Tensor) -> None:
        """Receive the operands and the output of a product."""

    def around(self, site: Site) -> AbstractContextManager[None]:
        """Return a context for the product of a site to run in."""
        return nullcontext()


OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("bitcycle_observers", default=())


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Let an observer see every product that runs inside. Layers in full precision then compute on their sites too."""
    token = OBSERVERS.set((*OBSERVERS.get(), observer))
    try:
        yield
    finally:
        OBSERVERS.reset(token)


def current_observers() -> tuple[Observer, ...]:
    """Return the observers of this context; none inside a compiled graph."""
    return () if torch.compiler.is_compiling() else OBSERVERS.get()


@contextmanager
def computing(site: Site) -> Iterator[None]:
    """Mark the operations that run inside as the product of a site."""
    observers = current_observers()
    if not observers:
        yield
        return
    with ExitStack() as stack:
        for observer in observers:
            stack.enter_context(observer.around(site))
        yield


def report_product(
    site: Site,
    product: Counted,
    a: Tensor,
    b: Tensor | None,
    out: Tensor,
    roles: tuple[Role, Role] | None = None,
) -> Tensor:
    """Report a product to the observers and return its output.

    Args:
        site: The site.
        product: Which product it is.
        a: The first operand.
        b: The second operand; None if it is not quantised.
        out: The product.
        roles: What both operands are; by default a parameter or a view of one is a weight, and all else an activation.
    """
    observers = current_observers()
    if observers:
        site.roles = (role_of(a), Role.ACTIVATION if b is None else role_of(b)) if roles is None else roles
    for observer in observers:
        observer.multiplied(site, product, a, b, out)
    return out
