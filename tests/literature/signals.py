"""Wavelets, windows, kernels of Gaussian processes and coefficients of rotations, as their papers print them."""

from sympy import Abs, Eq, Piecewise, acos, asin, cos, exp, pi, sin, sqrt, tanh

from gradgen import Tensor, op


@op
def ricker(x: Tensor):
    """Ricker, Wavelet functions and their polynomials, 1944."""
    return 2 / (sqrt(3) * pi**0.25) * (1 - x**2) * exp(-(x**2) / 2)


@op
def gaussian_derivative(x: Tensor):
    """Mallat, A wavelet tour of signal processing, section 4.3."""
    return -x * exp(-(x**2) / 2)


@op
def morlet(x: Tensor):
    """Morlet et al., Wave propagation and sampling theory, 1982."""
    return cos(5 * x) * exp(-(x**2) / 2)


@op
def sinc_filter(x: Tensor):
    """Whittaker, On the functions which are represented by the expansions of the interpolation theory, 1915."""
    return sin(pi * x) / (pi * x)


@op
def lanczos(x: Tensor):
    """Duchon, Lanczos filtering in one and two dimensions, 1979."""
    window = sin(pi * x) / (pi * x) * sin(pi * x / 3) / (pi * x / 3)
    return Piecewise((1, Eq(x, 0)), (window, Abs(x) < 3), (0, True))


@op
def bump(x: Tensor):
    """Friedrichs, The identity of weak and strong extensions of differential operators, 1944."""
    return Piecewise((exp(-1 / (1 - x**2)), Abs(x) < 1), (0, True))


@op
def flat(x: Tensor):
    """Cauchy, Résumé des leçons sur le calcul infinitésimal, 1823: smooth, and its own Taylor series nowhere."""
    return Piecewise((exp(-1 / x**2), Abs(x) > 0), (0, True))


@op
def matern_three_halves(x: Tensor):
    """Matérn, Spatial variation, 1960."""
    return (1 + sqrt(3) * Abs(x)) * exp(-sqrt(3) * Abs(x))


@op
def matern_five_halves(x: Tensor):
    """Matérn, Spatial variation, 1960."""
    return (1 + sqrt(5) * Abs(x) + 5 * x**2 / 3) * exp(-sqrt(5) * Abs(x))


@op
def rational_quadratic(x: Tensor, alpha: float = 1.5):
    """Rasmussen & Williams, Gaussian processes for machine learning, section 4.2."""
    return (1 + x**2 / (2 * alpha)) ** -alpha


@op
def periodic(x: Tensor):
    """MacKay, Introduction to Gaussian processes, 1998."""
    return exp(-2 * sin(x / 2) ** 2)


@op
def rodrigues_a(x: Tensor):
    """Rodrigues, Des lois géométriques qui régissent les déplacements d'un système solide, 1840."""
    return sin(x) / x


@op
def rodrigues_b(x: Tensor):
    """Rodrigues, Des lois géométriques qui régissent les déplacements d'un système solide, 1840."""
    return (1 - cos(x)) / x**2


@op
def rodrigues_c(x: Tensor):
    """The left Jacobian of SO(3)  (Barfoot, State estimation for robotics, section 7.1)."""
    return (x - sin(x)) / x**3


@op
def rotation_logarithm(x: Tensor):
    """The angle over twice its sine, of the trace  (Murray, Li & Sastry, Robotic manipulation, section 2.2)."""
    return acos((x - 1) / 2) / (2 * sin(acos((x - 1) / 2)))


@op
def slerp(x: Tensor, t: float = 0.3):
    """Shoemake, Animating rotation with quaternion curves, 1985."""
    return sin((1 - t) * x) / sin(x)


@op
def great_circle(a: Tensor, b: Tensor, difference: Tensor):
    """Sinnott, Virtues of the haversine, 1984: two latitudes and the difference of longitudes."""
    return 2 * asin(sqrt(sin((b - a) / 2) ** 2 + cos(a) * cos(b) * sin(difference / 2) ** 2))


@op
def mercator_latitude(x: Tensor):
    """The Gudermannian as Snyder prints it, Map projections: a working manual, 1987."""
    return asin(tanh(x))
