from sympy import erf, exp, sqrt

from gradgen import Tensor, op


@op
def bias_gelu(x: Tensor, bias: Tensor):
    """GELU of a sum, the bias being one number a channel  (Hendrycks & Gimpel, Gaussian Error Linear Units, 2016)."""
    y = x + bias
    return y * (1 + erf(y / sqrt(2))) / 2


@op
def channel_swish(x: Tensor, beta: Tensor):
    """Swish with a learnable beta, one a channel  (Ramachandran et al., Searching for Activation Functions, 2017)."""
    return x / (1 + exp(-beta * x))
