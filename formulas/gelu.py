from sympy import erf, pi, sqrt, tanh

from gradgen import Tensor, op


@op
def gelu(x: Tensor):
    """Gaussian error linear unit, x times the normal distribution function  (Hendrycks & Gimpel, 2016)."""
    return x * (1 + erf(x / sqrt(2))) / 2


@op
def gelu_tanh(x: Tensor):
    """The tanh approximation of GELU  (Hendrycks & Gimpel, Gaussian Error Linear Units, 2016, section 2)."""
    return x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
