from sympy import exp

from gradgen import Tensor, op


@op
def swish(x: Tensor, beta: float = 1.0):
    """Swish, x * sigmoid(beta * x)  (Ramachandran, Zoph & Le, Searching for Activation Functions, 2017)."""
    return x / (1 + exp(-beta * x))
