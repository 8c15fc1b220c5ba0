from sympy import exp, log, tanh

from gradgen import Tensor, op


@op
def mish(x: Tensor):
    """Mish, x * tanh(softplus(x))  (Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019)."""
    return x * tanh(log(1 + exp(x)))
