from sympy import exp

from gradgen import Tensor, op


@op
def neuron(w0: Tensor, x0: Tensor, w1: Tensor, x1: Tensor, w2: Tensor):
    """A neuron of two inputs, sigmoid(w0*x0 + w1*x1 + w2)  (Stanford CS231n, Backpropagation, Intuitions)."""
    f = w0 * x0 + w1 * x1 + w2
    return 1 / (1 + exp(-f))
