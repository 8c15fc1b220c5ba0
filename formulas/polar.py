from sympy import cos, sin

from gradgen import Tensor, op


@op
def polar_to_cartesian(r: Tensor, theta: Tensor):
    """Polar to Cartesian coordinates, (r cos(theta), r sin(theta))  (Euler, Introductio, 1748)."""
    x = r * cos(theta)
    y = r * sin(theta)
    return x, y
