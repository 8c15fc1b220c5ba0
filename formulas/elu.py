from sympy import Piecewise, exp

from gradgen import Tensor, op


@op
def elu(x: Tensor, alpha: float = 1.0):
    """Exponential linear unit  (Clevert, Unterthiner & Hochreiter, ICLR 2016)."""
    return Piecewise((x, x > 0), (alpha * (exp(x) - 1), True))
