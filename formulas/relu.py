from sympy import Max

from gradgen import Tensor, op


@op
def relu(x: Tensor):
    """Rectified linear unit, max(x, 0)  (Nair & Hinton, Rectified Linear Units Improve RBMs, ICML 2010)."""
    return Max(x, 0)
