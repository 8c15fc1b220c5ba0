"""Losses, pointwise, as their papers print them; x is an error, a margin or a logit."""

from sympy import Abs, Max, Piecewise, Rational, atan, cosh, exp, log, loggamma, sqrt

from gradgen import Tensor, op


@op
def log_cosh(x: Tensor):
    """Saleh & Saleh, Statistical properties of the log-cosh loss function, 2022."""
    return log(cosh(x))


@op
def log_cosh_exponentials(x: Tensor):
    """The same, as early Keras computed it."""
    return log((exp(x) + exp(-x)) / 2)


@op
def pseudo_huber(x: Tensor, delta: float = 1.5):
    """Charbonnier et al., Deterministic edge-preserving regularization, 1997."""
    return delta**2 * (sqrt(1 + (x / delta) ** 2) - 1)


@op
def charbonnier(x: Tensor, epsilon: float = 0.001):
    """Lai et al., Deep Laplacian pyramid networks, 2017."""
    return sqrt(x**2 + epsilon**2)


@op
def focal(x: Tensor):
    """Lin et al., Focal loss for dense object detection, 2017, with gamma = 2."""
    p = 1 / (1 + exp(-x))
    return -((1 - p) ** 2) * log(p)


@op
def poisson_nll(x: Tensor, y: Tensor(grad=False)):
    """Negative log-likelihood of a count y, x the logarithm of the rate  (Nelder & Wedderburn, 1972)."""
    return exp(x) - y * x


@op
def poisson_nll_full(rate: Tensor, y: Tensor(grad=False)):
    """The same of the rate itself, with the constant."""
    return rate - y * log(rate) + loggamma(y + 1)


@op
def gaussian_nll(mean: Tensor, variance: Tensor, y: Tensor(grad=False)):
    """Nix & Weigend, Estimating the mean and variance of the target probability distribution, 1994."""
    return (log(variance) + (y - mean) ** 2 / variance) / 2


@op
def quantile(x: Tensor, q: float = 0.3):
    """Koenker & Bassett, Regression quantiles, 1978."""
    return Max(q * x, (q - 1) * x)


@op
def smooth_hinge(x: Tensor):
    """Rennie & Srebro, Loss functions for preference levels, 2005."""
    return Piecewise((Rational(1, 2) - x, x <= 0), ((1 - x) ** 2 / 2, x < 1), (0, True))


@op
def savage(x: Tensor):
    """Masnadi-Shirazi & Vasconcelos, On the design of loss functions for classification, 2008."""
    return 1 / (1 + exp(x)) ** 2


@op
def tangent_loss(x: Tensor):
    """Masnadi-Shirazi, Mahadevan & Vasconcelos, On the design of robust classifiers, 2010."""
    return (2 * atan(x) - 1) ** 2


@op
def cauchy_loss(x: Tensor, c: float = 1.5):
    """Black & Anandan, The robust estimation of multiple motions, 1996."""
    return log((x / c) ** 2 / 2 + 1)


@op
def geman_mcclure(x: Tensor):
    """Geman & McClure, Bayesian image analysis, 1985."""
    return 2 * x**2 / (x**2 + 4)


@op
def welsch(x: Tensor, c: float = 1.5):
    """Dennis & Welsch, Techniques for nonlinear least squares and robust regression, 1978."""
    return 1 - exp(-((x / c) ** 2) / 2)


@op
def barron_general(x: Tensor, alpha: float = -3.0, c: float = 1.0):
    """Barron, A general and adaptive robust loss function, 2019."""
    return Abs(alpha - 2) / alpha * (((x / c) ** 2 / Abs(alpha - 2) + 1) ** (alpha / 2) - 1)


@op
def fair_loss(x: Tensor, c: float = 1.4):
    """Fair, On the robust estimation of econometric models, 1974."""
    return c**2 * (Abs(x) / c - log(1 + Abs(x) / c))


@op
def tukey_biweight(x: Tensor):
    """Beaton & Tukey, The fitting of power series, 1974, with c = 4.6851."""
    c = 4.6851
    return Piecewise((c**2 / 6 * (1 - (1 - (x / c) ** 2) ** 3), Abs(x) <= c), (c**2 / 6, True))


@op
def wing(x: Tensor):
    """Feng et al., Wing loss for robust facial landmark localisation, 2018."""
    return Piecewise((10 * log(1 + Abs(x) / 2), Abs(x) < 10), (Abs(x) - (10 - 10 * log(6)), True))


@op
def label_smoothing_bce(x: Tensor, y: Tensor(grad=False), epsilon: float = 0.1):
    """Szegedy et al., Rethinking the Inception architecture, 2016, for two classes."""
    target = y * (1 - epsilon) + epsilon / 2
    p = 1 / (1 + exp(-x))
    return -target * log(p) - (1 - target) * log(1 - p)


@op
def binary_entropy(p: Tensor):
    """Shannon, A mathematical theory of communication, 1948."""
    return -p * log(p) - (1 - p) * log(1 - p)


@op
def kl_bernoulli(p: Tensor, q: Tensor):
    """Kullback & Leibler, On information and sufficiency, 1951, of two coins."""
    return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))


@op
def jensen_shannon(p: Tensor, q: Tensor):
    """Lin, Divergence measures based on the Shannon entropy, 1991, pointwise."""
    return p * log(2 * p / (p + q)) / 2 + q * log(2 * q / (p + q)) / 2


@op
def itakura_saito(p: Tensor, q: Tensor):
    """Itakura & Saito, Analysis synthesis telephony, 1968."""
    return p / q - log(p / q) - 1


@op
def hellinger(p: Tensor, q: Tensor):
    """Hellinger, Neue Begründung der Theorie quadratischer Formen, 1909, pointwise."""
    return (sqrt(p) - sqrt(q)) ** 2 / 2


@op
def poisson_deviance(y: Tensor, mean: Tensor):
    """McCullagh & Nelder, Generalized linear models, 1989."""
    return 2 * (y * log(y / mean) - (y - mean))


@op
def tversky(p: Tensor, y: Tensor, alpha: float = 0.3, beta: float = 0.7):
    """Salehi, Erdogmus & Gholipour, Tversky loss function for image segmentation, 2017, pointwise."""
    return 1 - (p * y + 1) / (p * y + alpha * p * (1 - y) + beta * (1 - p) * y + 1)


@op
def vae_kl(x: Tensor):
    """The variance's part of the divergence of Kingma & Welling, Auto-encoding variational Bayes, 2013."""
    return (exp(x) - 1 - x) / 2


@op
def msle(x: Tensor, y: Tensor):
    """The squared logarithmic error, of Kaggle's contests since 2011."""
    return (log(1 + x) - log(1 + y)) ** 2


@op
def bpr(x: Tensor, y: Tensor):
    """Rendle et al., BPR: Bayesian personalized ranking, 2009."""
    return -log(1 / (1 + exp(-(x - y))))
