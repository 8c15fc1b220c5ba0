from sympy import erf, exp, sqrt

from gradgen import Tensor, op


@op
def swiglu(gate: Tensor, value: Tensor):
    """SwiGLU between its matrix products, swish(gate) * value  (Shazeer, GLU Variants Improve Transformer, 2020)."""
    return gate / (1 + exp(-gate)) * value


@op
def geglu(gate: Tensor, value: Tensor):
    """GeGLU between its matrix products, gelu(gate) * value  (Shazeer, GLU Variants Improve Transformer, 2020)."""
    return gate * (1 + erf(gate / sqrt(2))) / 2 * value
