from sympy import Abs, Piecewise, exp, log

from gradgen import Tensor, op


@op
def huber(prediction: Tensor, target: Tensor(grad=False), delta: float = 1.0):
    """Huber's loss, pointwise  (Huber, Robust Estimation of a Location Parameter, 1964)."""
    error = prediction - target
    return Piecewise((error**2 / 2, Abs(error) <= delta), (delta * (Abs(error) - delta / 2), True))


@op
def log_sigmoid(x: Tensor):
    """The logarithm of the logistic function  (Cox, The Regression Analysis of Binary Sequences, 1958)."""
    return log(1 / (1 + exp(-x)))


@op
def bce_with_logits(x: Tensor, y: Tensor):
    """Binary cross-entropy of a logit x and a target y in [0, 1]  (Good, Rational Decisions, 1952)."""
    p = 1 / (1 + exp(-x))
    return -(y * log(p) + (1 - y) * log(1 - p))


@op
def tanh_exp(x: Tensor):
    """tanh, as a quotient of exponentials  (Abramowitz & Stegun, 1964, 4.5.3)."""
    return (exp(x) - exp(-x)) / (exp(x) + exp(-x))
