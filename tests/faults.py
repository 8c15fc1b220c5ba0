"""Numerical faults that were reported in public against other libraries, one a row.

A row is the formula of the report as a user would type it, the points of the report, and what the library gave there.
`tests/test_faults.py` asks the same of generated operations. `source` is owner/repository#number (an issue or a pull
request), so that each row can be looked up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

BOTH = ("float32", "float64")


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: of the operation in the spec.
        formula: what it returns, in the words of a spec; its inputs are single letters.
        points: where; a number, or one for each input.
        gave: what the other library gave there.
        source: where it was reported.
        by: what to look at: "" is the value, "x" its derivative by x, "xx" the second derivative.
        expected: the result, where it is a convention or a limit that the formula does not reach; else mpmath says.
        inputs: the tensors, in order.
        dtypes: the types in which the points are representable.
        known: what gradgen itself gets wrong today, by type, or by type and path ("float32 torch").
    """

    name: str
    formula: str
    points: tuple[float | tuple[float, ...], ...]
    gave: str
    source: str
    by: tuple[str, ...] = ("",)
    expected: float | None = None
    inputs: str = "x"
    dtypes: tuple[str, ...] = BOTH
    known: dict[str, str] = field(default_factory=dict)


# A branch that is not taken
BRANCHES = [
    Fault(
        "where_sqrt", "Piecewise((sqrt(x), x > 0), (x, True))", (-1.0, -4.0),
        "NaN", "pytorch/pytorch#187297", by=("x",),
    ),
    Fault(
        "where_log2", "Piecewise((log(x)/log(2), x > 2), (2*x, True))", (0.0, 3.0),
        "NaN at 0", "pytorch/pytorch#108618", by=("", "x"),
    ),
    Fault(
        "where_x_sqrt", "Piecewise((0, Eq(x, 0)), (x*sqrt(x), True))", (0.0,),
        "NaN", "tinygrad/tinygrad#12409", by=("x",), expected=0.0,
    ),
    Fault(
        "where_double_exponential", "Piecewise((x, x < 15), (10**exp(x), True))", (10.0,),
        "NaN", "tensorflow/tensorflow#38349", by=("x", "xx"),
    ),
    Fault(
        "where_cos", "Piecewise((cos(x), x < 1), (0, True))", (inf,),
        "NaN", "pytorch/pytorch#18287", by=("", "x"), expected=0.0,
    ),
    Fault(
        "where_norm", "Piecewise((sqrt(x**2 + y**2), sqrt(x**2 + y**2) > 0.5), (1, True))", ((0.0, 0.0),),
        "NaN", "jax-ml/jax#347", by=("x", "y", "xx"), inputs="xy",
    ),
    Fault(
        "where_atan2", "Piecewise((0, z > 0.5), (atan2(x, y), True))", ((0.0, 0.0, 1.0),),
        "NaN", "jax-ml/jax#1052", by=("x", "y"), inputs="xyz",
    ),
    Fault(
        "where_quotient", "Piecewise((x, x >= t), (x/t, True))", ((1.0, 0.0),),
        "NaN", "pytorch/pytorch#36923", by=("x",), inputs="xt",
    ),
    Fault(
        "where_exp", "Piecewise((exp(x), x <= 10), (1, True))", (1e10,),
        "NaN", "pytorch/pytorch#156212", by=("x", "xx"),
    ),
    Fault(
        "elu", "Piecewise((x, x >= 0), (exp(x) - 1, True))", (89.0, 300.0),
        "NaN", "tinygrad/tinygrad#17852", by=("x", "xx"),
    ),
    Fault(
        "selu", "1.0507*Piecewise((x, x > 0), (1.67326*exp(x) - 1.67326, True))", (89.0, 710.0, -1e-8),
        "NaN", "FluxML/NNlib.jl#722", by=("", "x", "xx"),
    ),
    Fault(
        "celu", "Max(0, x) + Min(0, exp(x) - 1)", (89.0, 548.0),
        "NaN", "huggingface/candle#2328", by=("x", "xx"),
    ),
    Fault(
        "selu_tail", "1.0507*Piecewise((x, x > 0), (1.67326*exp(x) - 1.67326, True))", (-700.0,),
        "0.0", "tensorflow/tensorflow#124834", by=("x",), dtypes=("float64",),
    ),
    Fault(
        "log_of_max", "log(1/Max(Float('1e-20'), x))", (0.0,),
        "NaN in float32", "JuliaDiff/ForwardDiff.jl#287", by=("", "x"),
    ),
]  # fmt: skip

# Sigmoids, softplus and their kin
SIGMOIDS = [
    Fault(
        "softplus_", "log(1 + exp(x))", (100.0, 1e10, -100.0),
        "inf, with a NaN gradient", "tracel-ai/burn#5373", by=("", "x", "xx"),
    ),
    Fault(
        "softplus_beta", "log(1 + exp(5*x))/5", (18.0, 100.0),
        "inf, with a NaN gradient", "tracel-ai/burn#5373", by=("", "x"),
    ),
    Fault(
        "softplus_gradient", "log(1 + exp(x))", (88.5, 90.0, 99.0),
        "0.0", "tenstorrent/tt-metal#56397", by=("x",),
    ),
    Fault(
        "softplus_inverse", "log(exp(x) - 1)", (1000.0, 100.0, 1e-20),
        "inf, inf, -inf", "sims1253/bayesfam#31", by=("", "x"),
    ),
    Fault(
        "sigmoid_", "1/(1 + exp(-x))", (-1662.7269, 3212.5393, 91.387436),
        "NaN, or 0.5", "clab/dynet#1525", by=("", "x"),
    ),
    Fault(
        "sigmoid_gradient", "1/(1 + exp(-x))", (-90.0, -548.3162),
        "NaN", "tracel-ai/burn#1139", by=("x", "xx"),
    ),
    Fault(
        "sigmoid_surrogate", "25*exp(-25*x)/(exp(-25*x) + 1)**2", (-5.0, 3.0, -0.01),
        "NaN at -5", "jeshraghian/snntorch#427", by=("", "x"),
    ),
    Fault(
        "exp_times_sigmoid", "exp(x)/(1 + exp(x))*y", ((100.0, 2.0), (-200.0, 2.0)),
        "NaN", "Theano/Theano#233", by=("", "x", "y"), inputs="xy",
    ),
    Fault(
        "log_sigmoid_", "log(1/(1 + exp(-x)))", (-300.0, 50.0),
        "-inf at -300", "pytorch/pytorch#2211", by=("", "x"),
    ),
    Fault(
        "log_sigmoid_at_infinity", "log(1/(1 + exp(-x)))", (-inf,),
        "NaN", "pytorch/pytorch#20972", expected=-inf,
    ),
    Fault(
        "log_sigmoid_slope_at_infinity", "log(1/(1 + exp(-x)))", (-inf,),
        "NaN", "pytorch/pytorch#20972", by=("x",), expected=1.0,
    ),
    Fault(
        "log_one_minus_sigmoid", "log(1 - 1/(1 + exp(-x)))", (50.0, 1000.0, -50.0),
        "-inf", "aesara-devs/aesara#531", by=("", "x"),
    ),
    Fault(
        "silu_tail", "x/(1 + exp(-x))", (-709.0,),
        "-0.0", "tensorflow/tensorflow#124835", by=("x",), dtypes=("float64",),
    ),
    Fault(
        "silu", "x/(1 + exp(-x))", (-100.0, -88.0, 100.0),
        "NaN", "trymirai/lalamo#328", by=("", "x", "xx"),
    ),
    Fault(
        "mish", "x*tanh(log(1 + exp(x)))", (-15.0, -5.0, -2.5, 30.0),
        "few correct digits in [-20, -2]", "AlexeyAB/darknet#5452", by=("", "x"),
    ),
    Fault(
        "mish_large", "x*tanh(log(1 + exp(x)))", (5000.0, 100.0, -100.0),
        "NaN", "davisking/dlib#1938", by=("x", "xx"),
    ),
    Fault(
        "mish_algebraic", "x/(1 + 2/(exp(x)*(exp(x) + 2)))", (-100.0, 100.0, -30.0),
        "NaN below about -100, where exp(x) vanishes", "apple/coremltools#2618", by=("", "x"),
    ),
    Fault(
        "gelu_tanh", "x/2*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x**3)))", (256.0, -256.0, 1e15),
        "NaN in float16", "facebookresearch/fairseq#2235", by=("", "x"),
    ),
    Fault(
        "gelu_tail", "x*(1 + erf(x/sqrt(2)))/2", (-4.5, -5.25, -5.5425, -10.0),
        "up to 700 % off", "tenstorrent/tt-metal#56490",
    ),
    Fault(
        "gelu_slope", "x*(1 + erf(x/sqrt(2)))/2", (3.1719, 5.9, -5.0),
        "1.0, 7.5e-3 too low", "tenstorrent/tt-metal#54868", by=("x",),
    ),
    Fault(
        "tanh_of_exponentials", "(exp(2*x) - 1)/(exp(2*x) + 1)", (50.0, 1000.0, -50.0, 1e-4),
        "NaN", "ROCm/triton#901", by=("", "x"),
    ),
    Fault(
        "tanh_slope", "tanh(x)", (6.0, 14.0, 20.0),
        "10 digits lost at 14, 0 at 20", "JuliaDiff/DiffRules.jl#102", by=("x", "xx"),
    ),
    Fault(
        "tanhshrink", "x - tanh(x)", (1e-3, 0.01, 0.1, 5.0),
        "0 for small x", "tenstorrent/tt-metal#47323", by=("", "x"),
    ),
    Fault(
        "softsign_at_infinity", "x/(1 + Abs(x))", (inf,),
        "NaN", "wagenaartje/neataptic#13", expected=1.0,
    ),
]  # fmt: skip

# Logarithms of sums and differences of exponentials
LOGARITHMS = [
    Fault(
        "logaddexp_chain", "log(exp(x) + exp(y) + exp(z))", ((-inf, -inf, 2.0),),
        "NaN gradients", "pytorch/pytorch#49724", by=("x", "y"), expected=0.0, inputs="xyz",
    ),
    Fault(
        "logaddexp_chain_value", "log(exp(x) + exp(y) + exp(z))", ((-inf, -inf, 2.0),),
        "2, with NaN gradients", "pytorch/pytorch#49724", expected=2.0, inputs="xyz",
    ),
    Fault(
        "logaddexp_one_infinite", "log(exp(x) + exp(y))", ((1.0, inf),),
        "NaN", "pytorch/pytorch#49724", by=("x",), expected=0.0, inputs="xy",
    ),
    Fault(
        "logaddexp_of_nothing", "log(exp(x) + exp(y))", ((-inf, -inf),),
        "NaN", "rmcgibbo/logsumexp#2", expected=-inf, inputs="xy",
    ),
    Fault(
        "logaddexp_equal", "log(exp(x) + exp(y))", ((3.0, 3.0), (1e4, 1e4), (-1e4, -1e4)),
        "not 1/2 and 1/2", "keras-team/keras#23616", by=("", "x", "y", "xy"), inputs="xy",
    ),
    Fault(
        "log1mexp", "log(1 - exp(-x))", (1e-10, 0.7, 50.0, 800.0),
        "-inf and 0", "pytorch/pytorch#39242", by=("", "x"),
    ),
    Fault(
        "log_diff_exp", "log(exp(x) - exp(y))", ((1000.0, 999.0), (1.0, 0.9999), (-1000.0, -1001.0)),
        "NaN", "pyro-ppl/numpyro#1368", by=("", "x", "y"), inputs="xy",
    ),
    Fault(
        "log_cosh", "log((exp(x) + exp(-x))/2)", (712.0, -712.0, 1e-3),
        "inf", "JuliaAI/MLJBase.jl#437", by=("", "x"),
    ),
    Fault(
        "log_of_cosh", "log(cosh(x))", (100.0, -100.0, 1e-3),
        "inf", "Lightning-AI/torchmetrics#3488", by=("", "x", "xx"),
    ),
    Fault(
        "log_abs_tanh", "log(Abs(tanh(x)))", (20.0, 3.0, 1e-10, 0.05),
        "0 at 20", "JuliaStats/LogExpFunctions.jl#86", by=("", "x"),
    ),
    Fault(
        "tanh_log_jacobian", "log(1 - tanh(x)**2)", (6.0, 20.0, 100.0, -20.0),
        "-inf", "tensorflow/probability#318", by=("", "x"),
    ),
    Fault(
        "logit", "log(p/(1 - p))", (0.499999999, 0.4999, 0.500001, 1e-30, 0.999),
        "half of the digits wrong", "probcomp/Venturecxx#694", by=("", "p"), inputs="p",
    ),
    Fault(
        "logit_near_half", "log(p/(1 - p))", (0.5000001, 0.49999),
        "a spike in the relative error at 1/2", "scipy/scipy#21388", inputs="p",
    ),
    Fault(
        "bce_with_logits", "-(y*log(1/(1 + exp(-x))) + (1 - y)*log(1 - 1/(1 + exp(-x))))",
        ((100.0, 0.0), (-100.0, 1.0), (20.0, 1.0)),
        "NaN", "huggingface/candle#2561", by=("", "x", "xx"), inputs="xy",
    ),
    Fault(
        "bce_at_infinity", "-(y*log(1/(1 + exp(-x))) + (1 - y)*log(1 - 1/(1 + exp(-x))))", ((-inf, 0.9),),
        "NaN", "pytorch/pytorch#135359", expected=inf, inputs="xy",
    ),
    Fault(
        "half_binomial", "log(1 + exp(x)) - y*x", ((-1000.0, 1.0), (1000.0, 1.0)),
        "NaN", "scikit-learn/scikit-learn#28046", by=("x", "xx"), inputs="xy",
    ),
    Fault(
        "negative_binomial", "y*log(1/(1 + exp(-x))) + 10*log(1 - 1/(1 + exp(-x)))", ((17.0, 10.0), (50.0, 10.0)),
        "-inf", "tensorflow/tensorflow#12371", by=("", "x"), inputs="xy",
    ),
    Fault(
        "focal", "-(1 - 1/(1 + exp(-x)))**2*log(1/(1 + exp(-x)))", (1000.0, 18.0, -1000.0, -18.0, 40.0),
        "NaN", "google-deepmind/optax#1267", by=("", "x"),
    ),
    Fault(
        "focal_gamma", "-(1 - 1/(1 + exp(-x)))**g*log(1/(1 + exp(-x)))", ((18.0, 0.0), (200.0, 0.0), (18.0, 1.5)),
        "NaN for a gamma of 0", "facebookresearch/sam3#575", by=("", "x"), inputs="xg",
    ),
    Fault(
        "kl_of_logits",
        "1/(1 + exp(-x))*(log(1/(1 + exp(-x))) - log(p))"
        " + (1 - 1/(1 + exp(-x)))*(log(1 - 1/(1 + exp(-x))) - log(1 - p))",
        ((30.0, 0.5), (200.0, 0.5), (-200.0, 0.5)),
        "NaN", "pytorch/pytorch#15288", by=("", "x"), inputs="xp",
    ),
    Fault(
        "normal_log_cdf", "log((1 + erf(x/sqrt(2)))/2)", (-6.0, 5.0),
        "-inf", "tensorflow/tensorflow#6891", by=("", "x"),
    ),
    Fault(
        "normal_log_cdf_tail", "log((1 + erf(x/sqrt(2)))/2)", (-20.0, -40.0),
        "-inf past 38 standard deviations", "FBruzzesi/polars-stats#37", by=("", "x"),
    ),
    Fault(
        "cauchy_log_cdf", "log(Rational(1, 2) + atan(x)/pi)", (-1e12, -1e16, -100.0),
        "-inf", "pymc-devs/pymc#8435", by=("", "x"),
    ),
    Fault(
        "cauchy_log_pdf", "log(1/(pi*(1 + x**2)))", (2e154, 1e200),
        "-inf", "scipy/scipy#21347", by=("", "x"), dtypes=("float64",),
    ),
    Fault(
        "student_pdf", "(1 + x**2/5)**-3", (2e154, 10.0),
        "0 with an overflow on the way", "boostorg/math#1401", by=("", "x"), dtypes=("float64",),
    ),
]  # fmt: skip

# x*log(x) at 0
ENTROPIES = [
    Fault(
        "xlogy", "Piecewise((0, Eq(x, 0)), (x*log(y), True))", ((0.0, 2.0),),
        "0 instead of log(2)", "pytorch/pytorch#80770", by=("x",), inputs="xy",
        known={
            "float32": "5.8e+06 ULP: derivative by x at 0, 2 is 0, exactly 0.693147; the branch taken is constant",
            "float64": "3.1e+15 ULP: derivative by x at 0, 2 is 0, exactly 0.693147; the branch taken is constant",
        },
    ),
    Fault(
        "xlogy_of_zero", "Piecewise((0, Eq(x, 0)), (x*log(y), True))", ((0.0, 0.0), (0.0, -1.0)),
        "NaN", "tenstorrent/tt-metal#55320", by=("", "y"), expected=0.0, inputs="xy",
    ),
    Fault(
        "xlog1py", "x*log(1 + y)", ((0.0, 1.0), (0.0, 1e-10)),
        "0 instead of log(2)", "tensorflow/tensorflow#56873", by=("x",), inputs="xy",
    ),
    Fault(
        "entropy", "Piecewise((0, Eq(p, 0)), (-p*log(p), True))", (0.0,),
        "NaN", "tensorflow/probability#241", expected=0.0, inputs="p",
    ),
    Fault(
        "entropy_slope", "Piecewise((0, Eq(p, 0)), (-p*log(p), True))", (1e-30, 0.3678),
        "NaN", "huggingface/trl#7251", by=("", "p"), inputs="p",
    ),
    Fault(
        "bernoulli_entropy",
        "-Piecewise((0, Eq(p, 0)), (p*log(p), True)) - Piecewise((0, Eq(p, 1)), ((1 - p)*log(1 - p), True))",
        (0.0, 1.0),
        "NaN", "pyro-ppl/numpyro#1696", expected=0.0, inputs="p",
    ),
    Fault(
        "kl_at_zero", "Piecewise((0, Eq(p, 0)), (p*log(p/q), True))", ((0.0, 0.1),),
        "NaN", "JuliaStats/Distributions.jl#793", by=("", "q"), expected=0.0, inputs="pq",
    ),
    Fault(
        "kl_of_zeros", "Piecewise((0, Eq(p, 0)), (p*log(p/q), True))", ((0.0, 0.0),),
        "NaN", "Lightning-AI/torchmetrics#1029", by=("", "q"), expected=0.0, inputs="pq",
    ),
    Fault(
        "poisson_zero_rate", "Piecewise((0, Eq(k, 0)), (k*log(r), True)) - r", ((0.0, 0.0),),
        "NaN gradient", "pytorch/pytorch#61511", by=("r",), expected=-1.0, inputs="kr",
    ),
]  # fmt: skip

# Norms, angles and powers
NORMS = [
    Fault(
        "norm_of_one", "sqrt(x**2)", (0.0,),
        "NaN", "pytorch/pytorch#2421", by=("x",), expected=0.0,
    ),
    Fault(
        "norm_of_two", "sqrt(x**2 + y**2)", ((0.0, 0.0),),
        "NaN", "HIPS/autograd#151", by=("x", "y"), expected=0.0, inputs="xy",
    ),
    Fault(
        "norm_squared", "sqrt(x**2 + y**2)**2", ((0.0, 0.0),),
        "NaN", "jax-ml/jax#4177", by=("x", "y", "xx"), inputs="xy",
    ),
    Fault(
        "norm_in_gaussian", "exp(-sqrt(x**2 + y**2)**2)", ((0.0, 0.0),),
        "NaN", "HIPS/autograd#183", by=("", "x", "y", "xx"), inputs="xy",
    ),
    Fault(
        "norm_tiny", "sqrt(x**2 + y**2)", ((1e-19, 0.0), (1e-25, 1e-25), (1e30, 1e30)),
        "inf", "tensorflow/tensorflow#12071", by=("", "x"), inputs="xy",
    ),
    Fault(
        "norm_in_power", "(1 + sqrt(x**2 + y**2)**2)**Rational(-1, 2)", ((0.0, 0.0),),
        "NaN", "JuliaDiff/ForwardDiff.jl#243", by=("x", "xx"), inputs="xy",
    ),
    Fault(
        "norm_of_product", "(sqrt((x*w)**2) - 1)**2", ((0.0, 1.0),),
        "NaN", "jax-ml/jax#2377", by=("w",), expected=0.0, inputs="xw",
    ),
    Fault(
        "hypotenuse", "sqrt(x**2 + y**2)", ((1e30, 1e30), (3e-30, 4e-30), (0.0, 5.0)),
        "inf", "jax-ml/jax#4893", by=("", "x", "xx"), inputs="xy",
    ),
    Fault(
        "angle", "atan2(y, x)", ((5.6843e-14, 1e-13), (1e-25, 1e-25), (1e25, -1e25)),
        "NaN", "pytorch/pytorch#98276", by=("", "x", "y"), inputs="xy",
    ),
    Fault(
        "atan2_huge", "atan2(y, x)", ((2e38, 1e38), (1e38, 2e38), (3e38, 2.9985e38)),
        "0 or pi/2", "tenstorrent/tt-metal#55124", by=("", "x"), inputs="xy",
    ),
    Fault(
        "signed_sqrt", "sign(x)*sqrt(Abs(x))", (1e-30, -1e-30, 4.0),
        "explodes", "jnhwkim/cbp#1", by=("", "x"),
    ),
    Fault(
        "sqrt_smallest", "sqrt(x)", (5e-324,),
        "inf", "jax-ml/jax#39799", by=("x",), dtypes=("float64",),
    ),
    Fault(
        "broken_power", "x**Rational(15, 8)", (0.0,),
        "NaN", "coin-or/CppAD#92", by=("x",), expected=0.0,
    ),
    Fault(
        "power_of_zero", "x**y", ((0.0, 2.0), (0.0, 3.0)),
        "NaN", "boostorg/math#445", by=("x",), expected=0.0, inputs="xy",
    ),
    Fault(
        "power_of_zero_by_exponent", "x**y", ((0.0, 1.0), (0.0, 2.0)),
        "NaN", "EnzymeAD/Enzyme#2855", by=("y",), expected=0.0, inputs="xy",
    ),
    Fault(
        "power_one_of_zero", "x**y", ((0.0, 1.0),),
        "NaN", "EnzymeAD/Enzyme#2855", by=("x",), expected=1.0, inputs="xy",
    ),
    Fault(
        "power_zero_of_zero", "x**y", ((0.0, 0.0),),
        "NaN", "johnhenry/mallory#74", by=("x",), expected=0.0, inputs="xy",
    ),
    Fault(
        "absolute", "Abs(x)", (0.0,),
        "1.0", "jax-ml/jax#37820", by=("x",), expected=0.0,
    ),
    Fault(
        "abs_of_square_root", "sqrt(x*x)", (0.0, -0.0),
        "NaN", "HIPS/autograd#100", by=("x",), expected=0.0,
    ),
    Fault(
        "relu_at_zero", "Max(x, 0)", (0.0,),
        "0.5 or 1.0, by the function called", "pytorch/pytorch#184572", by=("x",), expected=0.0,
    ),
    Fault(
        "clamp_at_bounds", "Min(Max(x, 0), 6)", (0.0, 6.0),
        "1.0", "pytorch/pytorch#184574", by=("x",), expected=0.0,
    ),
    Fault(
        "maximum_tie", "Max(x, y)", ((2.0, 2.0),),
        "1 and 1 in clamp_max", "pytorch/pytorch#191142", by=("x", "y"), expected=0.5, inputs="xy",
    ),
]  # fmt: skip

# Removable singularities and differences of nearly equal numbers
DIFFERENCES = [
    Fault(
        "sinc_at_zero", "Piecewise((1, Eq(x, 0)), (sin(pi*x)/(pi*x), True))", (0.0,),
        "NaN", "pytorch/pytorch#56760", by=("", "x"),
    ),
    Fault(
        "sinc_curvature", "Piecewise((1, Eq(x, 0)), (sin(pi*x)/(pi*x), True))", (0.0, 1e-3),
        "NaN", "pytorch/pytorch#187803", by=("xx",),
    ),
    Fault(
        "sinc_near_zero", "Piecewise((1, Eq(x, 0)), (sin(pi*x)/(pi*x), True))", (1e-6, 1e-3),
        "0, or no correct digit", "jax-ml/jax#35305", by=("x",),
    ),
    Fault(
        "sinc_curvature_near_zero", "sinc(x)", (1e-6, 1e-7, 1e-8, 1e-9),
        "-0.999 instead of -1/3", "evalf/nutils#800", by=("x", "xx"),
    ),
    Fault(
        "sinc_shifted", "sinc(pi*(2*x + 1))", (-0.5, -0.499),
        "NaN", "tensorflow/tensorflow#127226", by=("", "x"),
    ),
    Fault(
        "sinc_sympy", "sinc(x)", (0.0,),
        "0/0 in the derivative", "sympy/sympy#17539", by=("", "x", "xx"),
    ),
    Fault(
        "cos_minus_one", "cos(x) - 1", (1e-8, 1e-3, 0.5),
        "0", "sympy/sympy#20011", by=("", "x"),
    ),
    Fault(
        "exp_and_cos", "exp(x) + cos(x) - 2", (1e-8, 1e-3),
        "0", "sympy/sympy#21608",
    ),
    Fault(
        "expm1_", "exp(x) - 1", (1e-8, -1e-8, 1e-30),
        "0", "ggml-org/ggml#1515", by=("", "x"),
    ),
    Fault(
        "bernoulli_function", "x/(exp(x) - 1)", (1e-15, 1e-6, 0.01, 100.0, 1000.0, -1000.0),
        "7e-2 off at small x", "WIAS-PDELib/VoronoiFVM.jl#117",
    ),
    Fault(
        "bernoulli_slope", "x/(exp(x) - 1)", (1e-6, 0.01, 1.0, 44.0, 89.2, 1000.0),
        "0 or NaN", "finsberg/gotranx#67", by=("x",),
    ),
    Fault(
        "exp_linear_rate", "x/(1 - exp(-x))", (1e-6, 1e-3, 50.0, -50.0, -800.0),
        "inf or NaN around 0", "NeuroML/NeuroML2#43", by=("", "x"),
    ),
    Fault(
        "planck", "x**3/(exp(x) - 1)", (89.2, 44.0, 1e-10, 1000.0),
        "0, with gradients 0 from 44 on", "HajimeKawahara/exojax#753", by=("", "x"),
    ),
    Fault(
        "einstein_heat", "x**2*exp(x)/(exp(x) - 1)**2", (750.0, 1.0, 1e-3, 100.0),
        "NaN", "nanotheorygroup/kaldo#282", by=("", "x"),
    ),
    Fault(
        "rodrigues_b", "(1 - cos(x))/x**2", (1e-5, 1e-3, 0.1, 1e-20),
        "wrong limits", "RainerKuemmerle/g2o#221",
    ),
    Fault(
        "rodrigues_c", "(x - sin(x))/x**3", (1e-5, 1e-3, 0.1),
        "wrong limits", "RainerKuemmerle/g2o#221",
    ),
    Fault(
        "rodrigues_b_slope", "(1 - cos(x))/x**2", (1e-5, 1e-2, 0.1),
        "0 at the identity", "oarriaga/paz#383", by=("x",),
    ),
    Fault(
        "asinh_by_hand", "log(x + sqrt(x**2 + 1))", (-1e3, -1e4, -1e10, 1e-10),
        "-inf", "tinygrad/tinygrad#17749", by=("", "x"),
    ),
    Fault(
        "asinh_overflow", "log(x + sqrt(x**2 + 1))", (1e20, 1e30),
        "inf", "tinygrad/tinygrad#17882", by=("", "x"),
    ),
    Fault(
        "acosh_overflow", "log(x + sqrt(x**2 - 1))", (1e20, 1e30, 2.0),
        "inf", "tinygrad/tinygrad#17883", by=("", "x"),
    ),
    Fault(
        "asinh_at_zero", "sign(x)*log(Abs(x) + sqrt(x**2 + 1))", (0.0,),
        "0 instead of 1", "tinygrad/tinygrad#17758", by=("x",),
    ),
    Fault(
        "asinh_slope", "asinh(x)", (1e25, -1e25, 1e-10),
        "0", "tenstorrent/tt-metal#55725", by=("", "x", "xx"),
    ),
    Fault(
        "atan_by_asin", "asin(x/sqrt(1 + x**2))", (1e20, 1e30, 1e4),
        "0 instead of pi/2", "tinygrad/tinygrad#17944", by=("", "x"),
    ),
    Fault(
        "atanh_by_hand", "log((1 + x)/(1 - x))/2", (5.12e-16, 1e-8, 0.1, 0.99),
        "5.55e-16 instead of 5.12e-16", "woheller69/Arity#10", by=("", "x"),
    ),
    Fault(
        "erfinv_near_one", "erfinv(x)", (0.9999999403953552, -0.9999999403953552, 0.99999982),
        "inf", "tensorflow/tensorflow#121502", by=("", "x"),
    ),
    Fault(
        "erfinv_near_zero", "erfinv(x)", (3.8e-4, 1e-10, -1e-30),
        "0", "tenstorrent/tt-metal#56372", by=("", "x"),
    ),
    Fault(
        "kinetic_energy", "sqrt(1 + x**2) - 1", (1e-10, 1e-3, 0.1, 1e25),
        "0 for slow particles", "BLAST-WarpX/warpx#2397", by=("", "x"),
    ),
    Fault(
        "lorentz_minus_one", "1/sqrt(1 - x) - 1", (4e-8, 1e-4, 0.5),
        "8 correct digits of 16", "UKFELs/Puffin#119", by=("", "x"),
    ),
    Fault(
        "quadratic_root", "(-b + sqrt(b**2 + a))/c", ((1e-5, 3000.0, 1.0), (1e-5, 30000.0, 1.0)),
        "0", "modelica/ModelicaStandardLibrary#1350", inputs="abc",
    ),
]  # fmt: skip

KINDS: dict[str, list[Fault]] = {
    "branches": BRANCHES,
    "sigmoids": SIGMOIDS,
    "logarithms": LOGARITHMS,
    "entropies": ENTROPIES,
    "norms": NORMS,
    "differences": DIFFERENCES,
}
