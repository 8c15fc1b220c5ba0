from sympy import erf, exp, pi, sqrt, tanh

from gradgen import Tensor, op


@op
def swiglu(gate: Tensor, value: Tensor):
    """SwiGLU between its matrix products, swish(gate) * value  (Shazeer, GLU Variants Improve Transformer, 2020)."""
    return gate / (1 + exp(-gate)) * value


@op
def geglu(gate: Tensor, value: Tensor):
    """GeGLU between its matrix products, gelu(gate) * value  (Shazeer, GLU Variants Improve Transformer, 2020)."""
    return gate * (1 + erf(gate / sqrt(2))) / 2 * value


@op
def geglu_tanh(gate: Tensor, value: Tensor):
    """GeGLU with the tanh approximation of GELU, as it is mostly computed  (Shazeer, GLU Variants, 2020)."""
    return gate / 2 * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 * gate**3))) * value
