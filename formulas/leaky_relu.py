from sympy import Piecewise

from gradgen import Tensor, op


@op
def leaky_relu(x: Tensor, alpha: float = 0.01):
    """Leaky ReLU: x above 0, alpha * x below  (Maas, Hannun & Ng, Rectifier Nonlinearities, ICML 2013)."""
    return Piecewise((x, x > 0), (alpha * x, True))
