import sympy

from gradgen import Tensor, op


@op
def exp(x: Tensor):
    """The exponential function  (Abramowitz & Stegun, Handbook of Mathematical Functions, 1964, 4.2.1)."""
    return sympy.exp(x)
