"""Ctrl-C is kept in mind where Python drops it."""

import os
import signal
import weakref

import pytest

from bitcycle.cli.interrupts import Interrupt


class Thing:
    pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_dropped_interrupt_comes_back():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Interrupt() as interrupt:
            thing = Thing()
            watched = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
            try:
                del thing
                sum(range(1000))
            except KeyboardInterrupt:
                pass
            assert watched() is None
            with pytest.raises(KeyboardInterrupt):
                interrupt.check()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGINT)
            interrupt.check()
    finally:
        signal.signal(signal.SIGINT, before)
