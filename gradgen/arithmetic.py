"""In which arithmetic a kernel is computed."""

from __future__ import annotations

from dataclasses import dataclass

ROUGH = ("bfloat16", "float16")  # computed in float32, of which they keep few digits

# Where the digits of float32 are off by no more, functions of float64 that are off by 2**-35 add a sixteenth of a unit.
BRIEF = 2.0**7


@dataclass(frozen=True)
class Arithmetic:
    """In which arithmetic a kernel is computed.

    Attributes:
        wide: the types that are computed in float64.
        brief: those of them that need no more than 35 bits of functions.
        moderate: the types of which those elements alone are that have an input, or a hyper-parameter, which is very
            small, or larger than a power of two; each with that power.
        uncorrected: the types in which what is compensated need not be.
        is_narrow_at_defaults: whether no type needs float64 where hyper-parameters have their defaults.
        plain_at_defaults: the types in which there what is compensated need not be, if it must be elsewhere.
    """

    wide: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()
    moderate: tuple[tuple[str, int], ...] = ()
    uncorrected: tuple[str, ...] = ()
    is_narrow_at_defaults: bool = False
    plain_at_defaults: tuple[str, ...] = ()
