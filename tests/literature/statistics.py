"""Densities, distribution functions, links and transforms, as textbooks print them."""

from sympy import Piecewise, Rational, atan, erf, exp, log, loggamma, pi, sqrt

from gradgen import Tensor, op


@op
def gumbel_log_density(x: Tensor):
    """Gumbel, Statistics of extremes, 1958."""
    return -(x + exp(-x))


@op
def weibull_log_density(x: Tensor, k: float = 1.5):
    """Weibull, A statistical distribution function of wide applicability, 1951."""
    return log(k) + (k - 1) * log(x) - x**k


@op
def weibull_distribution(x: Tensor, k: float = 1.5):
    """Weibull, A statistical distribution function of wide applicability, 1951."""
    return 1 - exp(-(x**k))


@op
def logistic_log_density(x: Tensor):
    """Johnson, Kotz & Balakrishnan, Continuous univariate distributions, chapter 23."""
    return -x - 2 * log(1 + exp(-x))


@op
def logistic_density(x: Tensor):
    """Johnson, Kotz & Balakrishnan, Continuous univariate distributions, chapter 23."""
    return exp(-x) / (1 + exp(-x)) ** 2


@op
def cauchy_log_density(x: Tensor):
    """Johnson, Kotz & Balakrishnan, Continuous univariate distributions, chapter 16."""
    return -log(pi * (1 + x**2))


@op
def cauchy_log_distribution(x: Tensor):
    """Johnson, Kotz & Balakrishnan, Continuous univariate distributions, chapter 16."""
    return log(atan(x) / pi + Rational(1, 2))


@op
def student_log_density(x: Tensor, nu: float = 3.0):
    """Student, The probable error of a mean, 1908."""
    return loggamma((nu + 1) / 2) - loggamma(nu / 2) - log(pi * nu) / 2 - (nu + 1) / 2 * log(1 + x**2 / nu)


@op
def normal_log_distribution(x: Tensor):
    """Johnson, Kotz & Balakrishnan, Continuous univariate distributions, chapter 13."""
    return log((1 + erf(x / sqrt(2))) / 2)


@op
def mills_ratio(x: Tensor):
    """Mills, Table of the ratio: area to bounding ordinate, 1926."""
    return (1 - erf(x / sqrt(2))) / 2 / (exp(-(x**2) / 2) / sqrt(2 * pi))


@op
def hazard(x: Tensor):
    """The inverse of Mills' ratio  (Heckman, Sample selection bias as a specification error, 1979)."""
    return exp(-(x**2) / 2) / sqrt(2 * pi) / ((1 - erf(x / sqrt(2))) / 2)


@op
def expected_improvement(x: Tensor):
    """Jones, Schonlau & Welch, Efficient global optimization, 1998; Bachelier's price of an option, 1900."""
    return x * (1 + erf(x / sqrt(2))) / 2 + exp(-(x**2) / 2) / sqrt(2 * pi)


@op
def black_scholes_d1(price: Tensor, volatility: Tensor, strike: float = 1.1, rate: float = 0.02):
    """Black & Scholes, The pricing of options and corporate liabilities, 1973."""
    return (log(price / strike) + (rate + volatility**2 / 2)) / volatility


@op
def black_scholes_call(price: Tensor, volatility: Tensor):
    """Black & Scholes, The pricing of options and corporate liabilities, 1973; strike 1, rate 0, one year."""
    d1 = log(price) / volatility + volatility / 2
    d2 = d1 - volatility
    return price * (1 + erf(d1 / sqrt(2))) / 2 - (1 + erf(d2 / sqrt(2))) / 2


@op
def lognormal_log_density(x: Tensor):
    """Johnson, Kotz & Balakrishnan, Continuous univariate distributions, chapter 14."""
    return -log(x) - log(2 * pi) / 2 - log(x) ** 2 / 2


@op
def inverse_gaussian_log_density(x: Tensor):
    """Tweedie, Statistical properties of inverse Gaussian distributions, 1957."""
    return -log(2 * pi * x**3) / 2 - (x - 1) ** 2 / (2 * x)


@op
def logit(p: Tensor):
    """Berkson, Application of the logistic function to bio-assay, 1944."""
    return log(p / (1 - p))


@op
def cloglog(p: Tensor):
    """Fisher, On the mathematical foundations of theoretical statistics, 1922."""
    return log(-log(1 - p))


@op
def fisher_z(x: Tensor):
    """Fisher, Frequency distribution of the values of the correlation coefficient, 1915."""
    return log((1 + x) / (1 - x)) / 2


@op
def exponential_distribution(x: Tensor):
    """Johnson, Kotz & Balakrishnan, Continuous univariate distributions, chapter 19."""
    return 1 - exp(-x)


@op
def rayleigh_distribution(x: Tensor):
    """Rayleigh, On the resultant of a large number of vibrations, 1880."""
    return 1 - exp(-(x**2) / 2)


@op
def box_cox(x: Tensor, a: float = 0.3):
    """Box & Cox, An analysis of transformations, 1964."""
    return (x**a - 1) / a


@op
def yeo_johnson(x: Tensor):
    """Yeo & Johnson, A new family of power transformations, 2000, with lambda = 1/2."""
    return Piecewise((2 * (sqrt(x + 1) - 1), x >= 0), (-((1 - x) ** Rational(3, 2) - 1) * Rational(2, 3), True))


@op
def softplus_inverse(x: Tensor):
    """Dugas et al., Incorporating second-order functional knowledge, 2001: the inverse of their softplus."""
    return log(exp(x) - 1)


@op
def zero_inflated_poisson(p: Tensor, rate: Tensor):
    """Lambert, Zero-inflated Poisson regression, 1992: the log-probability of no event."""
    return log(p + (1 - p) * exp(-rate))


@op
def tanh_log_jacobian(x: Tensor):
    """Haarnoja et al., Soft actor-critic, 2018, appendix C."""
    return log(1 - ((exp(2 * x) - 1) / (exp(2 * x) + 1)) ** 2)
