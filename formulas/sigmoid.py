from sympy import exp

from gradgen import Tensor, op


@op
def sigmoid(x: Tensor):
    """The logistic function, 1 / (1 + exp(-x))  (Verhulst, Correspondance mathematique et physique, 1838)."""
    return 1 / (1 + exp(-x))
