"""Activations, as their papers print them."""

from sympy import Abs, Eq, Max, Min, Piecewise, atan, cos, cosh, erf, exp, log, pi, sign, sin, sqrt, tanh

from gradgen import Tensor, op


@op
def tanhexp(x: Tensor):
    """Liu & Di, TanhExp: a smooth activation function with high convergence speed, 2020."""
    return x * tanh(exp(x))


@op
def logish(x: Tensor):
    """Zhu et al., Logish: a new nonlinear nonmonotonic activation function, 2021."""
    return x * log(1 + 1 / (1 + exp(-x)))


@op
def smish(x: Tensor):
    """Wang, Ren & Wang, Smish: a novel activation function for deep learning methods, 2022."""
    return x * tanh(log(1 + 1 / (1 + exp(-x))))


@op
def serf(x: Tensor):
    """Nag & Bhattacharyya, SERF: towards better training of deep neural networks, 2021."""
    return x * erf(log(1 + exp(x)))


@op
def gcu(x: Tensor):
    """Noel, Trivedi & Dutta, Growing cosine unit, 2021."""
    return x * cos(x)


@op
def snake(x: Tensor, a: float = 1.5):
    """Ziyin, Hartwig & Ueda, Neural networks fail to learn periodic functions, 2020."""
    return x + sin(a * x) ** 2 / a


@op
def squareplus(x: Tensor, b: float = 4.0):
    """Barron, Squareplus: a softplus-like algebraic rectifier, 2021."""
    return (x + sqrt(x**2 + b)) / 2


@op
def selu(x: Tensor):
    """Klambauer et al., Self-normalizing neural networks, 2017."""
    alpha = 1.6732632423543772
    return 1.0507009873554805 * Piecewise((x, x > 0), (alpha * exp(x) - alpha, True))


@op
def celu(x: Tensor, alpha: float = 1.3):
    """Barron, Continuously differentiable exponential linear units, 2017."""
    return Max(0, x) + Min(0, alpha * (exp(x / alpha) - 1))


@op
def isru(x: Tensor, alpha: float = 3.0):
    """Carlile et al., Improving deep learning by inverse square root linear units, 2017."""
    return x / sqrt(1 + alpha * x**2)


@op
def isrlu(x: Tensor, alpha: float = 3.0):
    """Carlile et al., Improving deep learning by inverse square root linear units, 2017."""
    return Piecewise((x, x >= 0), (x / sqrt(1 + alpha * x**2), True))


@op
def softsign(x: Tensor):
    """Turian, Bergstra & Bengio, Quadratic features and deep architectures for chunking, 2009."""
    return x / (1 + Abs(x))


@op
def elliott(x: Tensor):
    """Elliott, A better activation function for artificial neural networks, 1993."""
    return x / 2 / (1 + Abs(x)) + 1 / 2


@op
def hard_sigmoid(x: Tensor):
    """Courbariaux et al., Binarized neural networks, 2016."""
    return Max(0, Min(1, (x + 1) / 2))


@op
def hard_tanh(x: Tensor):
    """Collobert, Large scale machine learning, 2004."""
    return Max(-1, Min(1, x))


@op
def hard_swish(x: Tensor):
    """Howard et al., Searching for MobileNetV3, 2019."""
    return x * Min(Max(x + 3, 0), 6) / 6


@op
def tanh_shrink(x: Tensor):
    """Collobert, Kavukcuoglu & Farabet, Torch7, 2011."""
    return x - tanh(x)


@op
def phish(x: Tensor):
    """Naveen, Phish: a novel hyper-optimizable activation function, 2022."""
    return x * tanh(x * (1 + erf(x / sqrt(2))) / 2)


@op
def gelu_sigmoid(x: Tensor):
    """The sigmoid approximation of GELU  (Hendrycks & Gimpel, 2016)."""
    return x / (1 + exp(-1.702 * x))


@op
def soft_exponential(x: Tensor, alpha: float = 0.5):
    """Godfrey & Gashler, A continuum among logarithmic, linear, and exponential functions, 2015."""
    return Piecewise(
        (-log(1 - alpha * (x + alpha)) / alpha, alpha < 0),
        (x, Eq(alpha, 0)),
        ((exp(alpha * x) - 1) / alpha + alpha, True),
    )


@op
def elish(x: Tensor):
    """Basirat & Roth, The quest for the golden activation function, 2018."""
    return Piecewise((x / (1 + exp(-x)), x >= 0), ((exp(x) - 1) / (1 + exp(-x)), True))


@op
def hard_elish(x: Tensor):
    """Basirat & Roth, The quest for the golden activation function, 2018."""
    gate = Max(0, Min(1, (x + 1) / 2))
    return Piecewise((x * gate, x >= 0), ((exp(x) - 1) * gate, True))


@op
def soft_modulus(x: Tensor):
    """The quadratic one of Vallés-Pérez et al., Empirical study of the modulus as activation function, 2023."""
    return Piecewise((x**2 * (2 - Abs(x)), Abs(x) <= 1), (Abs(x), True))


@op
def soft_modulus_tanh(x: Tensor, alpha: float = 0.01):
    """Vallés-Pérez et al., Empirical study of the modulus as activation function, 2023."""
    return x * tanh(x / alpha)


@op
def lisht(x: Tensor):
    """Roy et al., LiSHT: non-parametric linearly scaled hyperbolic tangent activation function, 2019."""
    return x * tanh(x)


@op
def resech(x: Tensor):
    """Njikam & Zhao, A novel activation function for multilayer feed-forward neural networks, 2016."""
    return x / cosh(x)


@op
def pdelu(x: Tensor, alpha: float = 1.0, t: float = 0.9):
    """Cheng et al., Parametric deformable exponential linear units, 2020."""
    return Piecewise((x, x > 0), (alpha * (Max(0, 1 + (1 - t) * x) ** (1 / (1 - t)) - 1), True))


@op
def aria2(x: Tensor, alpha: float = 1.5, beta: float = 2.0):
    """Patwardhan, Ingalhalikar & Walambe, ARiA: utilizing Richard's curve, 2018."""
    return x * (1 + exp(-beta * x)) ** -alpha


@op
def bent_identity(x: Tensor):
    """Listed in Dubey, Singh & Chaudhuri, Activation functions in deep learning, 2022."""
    return (sqrt(x**2 + 1) - 1) / 2 + x


@op
def sinc_activation(x: Tensor):
    """Efimov, Shaoyan & Fengler, Approximation with neural networks using sinc functions, 1997."""
    return Piecewise((1, Eq(x, 0)), (sin(x) / x, True))


@op
def square_nonlinearity(x: Tensor):
    """Wuraola & Patel, SQNL: a new computationally efficient activation function, 2018."""
    return Piecewise((1, x > 2), (x - x**2 / 4, x >= 0), (x + x**2 / 4, x >= -2), (-1, True))


@op
def mish_algebraic(x: Tensor):
    """Mish with its tanh of a logarithm written out  (Misra, Mish: a self regularized activation, 2019)."""
    return x * ((1 + exp(x)) ** 2 - 1) / ((1 + exp(x)) ** 2 + 1)


@op
def cloglog_activation(x: Tensor):
    """Gomes & Ludermir, Complementary log-log and probit, 2008."""
    return 1 - exp(-exp(x))


@op
def symlog(x: Tensor):
    """Hafner et al., Mastering diverse domains through world models, 2023."""
    return sign(x) * log(1 + Abs(x))


@op
def symexp(x: Tensor):
    """Hafner et al., Mastering diverse domains through world models, 2023."""
    return sign(x) * (exp(Abs(x)) - 1)


@op
def penalized_tanh(x: Tensor):
    """Xu, Huang & Li, Revise saturated activation functions, 2016."""
    return Piecewise((tanh(x), x > 0), (tanh(x) / 4, True))


@op
def rootsig(x: Tensor):
    """Duch & Jankowski, Survey of neural transfer functions, 1999."""
    return x / (1 + sqrt(1 + x**2))


@op
def swim(x: Tensor, k: float = 0.5):
    """Abdool & Dear, Swim: a general-purpose, high-performing activation function, 2023."""
    return x / 2 * (1 + k * x / sqrt(1 + x**2))


@op
def dsilu(x: Tensor):
    """The derivative of SiLU as an activation  (Elfwing, Uchibe & Doya, Sigmoid-weighted linear units, 2018)."""
    s = 1 / (1 + exp(-x))
    return s * (1 + x * (1 - s))


@op
def colu(x: Tensor):
    """Vagerwal, Deeper learning with CoLU activation, 2021."""
    return x / (1 - x * exp(-(x + exp(x))))


@op
def sine_relu(x: Tensor, epsilon: float = 0.25):
    """Rodrigues, SineReLU, 2018."""
    return Piecewise((x, x > 0), (epsilon * (sin(x) - cos(x)), True))


@op
def fast_sigmoid_surrogate(x: Tensor, k: float = 25.0):
    """Zenke & Ganguli, SuperSpike, 2018."""
    return 1 / (1 + k * Abs(x)) ** 2


@op
def atan_surrogate(x: Tensor, alpha: float = 2.0):
    """Fang et al., Incorporating learnable membrane time constant, 2021."""
    return atan(pi / 2 * alpha * x) / pi + 1 / 2


@op
def sigmoid_surrogate(x: Tensor, k: float = 25.0):
    """The derivative of a steep sigmoid  (Zenke & Vogels, The remarkable robustness of surrogate gradients, 2021)."""
    return k * exp(-k * x) / (1 + exp(-k * x)) ** 2
