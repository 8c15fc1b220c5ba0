"""A spec of ten operations as the papers print them, for `python -m benchmarks build`."""

from sympy import Max, Min, erf, exp, log, pi, sin, sqrt, tanh

from gradgen import Tensor, op


@op
def swish(x: Tensor, beta: float = 1.0):
    """Swish  (Ramachandran et al., 2017)."""
    return x / (1 + exp(-beta * x))


@op
def mish(x: Tensor):
    """Mish  (Misra, 2019)."""
    return x * tanh(log(1 + exp(x)))


@op
def gelu(x: Tensor):
    """The Gaussian error linear unit  (Hendrycks & Gimpel, 2016)."""
    return x / 2 * (1 + erf(x / sqrt(2)))


@op
def gelu_tanh(x: Tensor):
    """Its approximation by tanh  (Hendrycks & Gimpel, 2016)."""
    return x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


@op
def logish(x: Tensor):
    """Logish  (Zhu et al., 2021)."""
    return x * log(1 + 1 / (1 + exp(-x)))


@op
def softplus(x: Tensor, beta: float = 1.0):
    """Softplus  (Dugas et al., 2000)."""
    return log(1 + exp(beta * x)) / beta


@op
def snake(x: Tensor, a: float = 1.0):
    """Snake  (Ziyin et al., 2020)."""
    return x + sin(a * x) ** 2 / a


@op
def hard_swish(x: Tensor):
    """Hard Swish  (Howard et al., 2019)."""
    return x * Min(Max(x + 3, 0), 6) / 6


@op
def bce_with_logits(x: Tensor, y: Tensor):
    """Binary cross entropy of logits."""
    return log(1 + exp(x)) - x * y


@op
def swiglu(gate: Tensor, value: Tensor):
    """SwiGLU between its matrix products  (Shazeer, 2020)."""
    return gate / (1 + exp(-gate)) * value
