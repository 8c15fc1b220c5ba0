from sympy import Max

from gradgen import Tensor, op, sigmoid


@op
def staged(x: Tensor, y: Tensor):
    """The staged example (x + sigmoid(y)) / (sigmoid(x) + (x + y)**2)  (Stanford CS231n, Backpropagation)."""
    num = x + sigmoid(y)
    den = sigmoid(x) + (x + y) ** 2
    return num / den


@op
def sum_product(x: Tensor, y: Tensor, z: Tensor):
    """The circuit (x + y) * z  (Stanford CS231n, Backpropagation, Intuitions)."""
    q = x + y
    return q * z


@op
def max_gate(x: Tensor, y: Tensor):
    """The max gate, which routes its gradient to the larger input  (Stanford CS231n, Backpropagation)."""
    return Max(x, y)
