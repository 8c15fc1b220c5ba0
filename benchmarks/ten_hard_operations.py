"""A spec of ten operations in which much cancels or overflows, for `python -m benchmarks build`."""

from sympy import acosh, erf, exp, log, loggamma, pi, sqrt, tanh

from gradgen import Tensor, op


@op
def shifted_silu(x: Tensor, b: float = 1.3):
    """SiLU with a scale and a shift."""
    return x * exp(b * x - 1) / (1 + exp(b * x - 1))


@op
def soft_clipping(x: Tensor, p: float = 5.0):
    """Soft clipping  (Klimek & Perelstein, 2020)."""
    return log((1 + exp(p * x)) / (1 + exp(p * (x - 1)))) / p


@op
def cauchy_nll(y: Tensor, mu: Tensor, s: Tensor):
    """Negative log likelihood of a Cauchy distribution."""
    return log(pi * s * (1 + ((y - mu) / s) ** 2))


@op
def negative_binomial_nll(y: Tensor, mu: Tensor, r: float = 3.0):
    """Negative log likelihood of a negative binomial distribution."""
    return loggamma(r) + loggamma(y + 1) - loggamma(y + r) - r * log(r / (r + mu)) - y * log(mu / (r + mu))


@op
def saturations(x: Tensor):
    """What two saturating functions differ by."""
    return x / sqrt(1 + x**2) - tanh(x)


@op
def focal_loss(x: Tensor, y: Tensor(grad=False), gamma: float = 2.0):
    """Focal loss of logits  (Lin et al., 2017)."""
    p = 1 / (1 + exp(-x))
    return -y * (1 - p) ** gamma * log(p) - (1 - y) * p**gamma * log(1 - p)


@op
def hyperbolic_distance(x: Tensor, y: Tensor):
    """Distance on a hyperbola."""
    return acosh(1 + (x - y) ** 2 / 2)


@op
def serf(x: Tensor):
    """Serf  (Nag & Bhattacharyya, 2021)."""
    return x * erf(log(1 + exp(x)))


@op
def einstein_heat(x: Tensor):
    """Heat capacity of an Einstein solid  (Einstein, 1907)."""
    return x**2 * exp(x) / (exp(x) - 1) ** 2


@op
def morse(r: Tensor, d: float = 2.0, a: float = 1.1, r0: float = 1.4):
    """Morse's potential  (Morse, 1929)."""
    return d * (1 - exp(-a * (r - r0))) ** 2
