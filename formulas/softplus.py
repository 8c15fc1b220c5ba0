from sympy import exp, log

from gradgen import Tensor, op


@op
def softplus(x: Tensor, beta: float = 1.0):
    """Softplus, log(1 + exp(beta * x)) / beta  (Dugas et al., Second-Order Functional Knowledge, NIPS 2000)."""
    return log(1 + exp(beta * x)) / beta
