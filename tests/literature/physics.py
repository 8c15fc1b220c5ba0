"""Physics, chemistry and biology, in reduced units, as textbooks print it."""

from sympy import cos, cosh, coth, exp, log, sin, sqrt

from gradgen import Tensor, op


@op
def planck(x: Tensor):
    """Planck, Zur Theorie des Gesetzes der Energieverteilung im Normalspectrum, 1900."""
    return x**3 / (exp(x) - 1)


@op
def planck_wavelength(x: Tensor):
    """The same law by wavelength."""
    return 1 / (x**5 * (exp(1 / x) - 1))


@op
def fermi_dirac(x: Tensor):
    """Fermi, Zur Quantelung des idealen einatomigen Gases, 1926."""
    return 1 / (exp(x) + 1)


@op
def bose_einstein(x: Tensor):
    """Bose, Plancks Gesetz und Lichtquantenhypothese, 1924."""
    return 1 / (exp(x) - 1)


@op
def langevin(x: Tensor):
    """Langevin, Magnétisme et théorie des électrons, 1905."""
    return coth(x) - 1 / x


@op
def brillouin(x: Tensor, j: float = 2.0):
    """Brillouin, Les moments de rotation et le magnétisme, 1927."""
    return (2 * j + 1) / (2 * j) * coth((2 * j + 1) / (2 * j) * x) - coth(x / (2 * j)) / (2 * j)


@op
def einstein_heat(x: Tensor):
    """Einstein, Die Plancksche Theorie der Strahlung und die Theorie der spezifischen Wärme, 1907."""
    return x**2 * exp(x) / (exp(x) - 1) ** 2


@op
def schottky(x: Tensor):
    """Schottky, Über die Drehung der Atomachsen in festen Körpern, 1922."""
    return x**2 * exp(x) / (1 + exp(x)) ** 2


@op
def debye_integrand(x: Tensor):
    """Debye, Zur Theorie der spezifischen Wärmen, 1912."""
    return x**4 * exp(x) / (exp(x) - 1) ** 2


@op
def oscillator_free_energy(x: Tensor):
    """The free energy of an oscillator  (Landau & Lifshitz, Statistical physics, section 49)."""
    return x / 2 + log(1 - exp(-x))


@op
def morse(x: Tensor, a: float = 1.5):
    """Morse, Diatomic molecules according to the wave mechanics, 1929."""
    return (1 - exp(-a * (x - 1))) ** 2


@op
def lennard_jones(x: Tensor):
    """Lennard-Jones, On the determination of molecular fields, 1924."""
    return 4 * ((1 / x) ** 12 - (1 / x) ** 6)


@op
def buckingham(x: Tensor):
    """Buckingham, The classical equation of state of gaseous helium, neon and argon, 1938."""
    return 1000 * exp(-3 * x) - 5 / x**6


@op
def yukawa(x: Tensor):
    """Yukawa, On the interaction of elementary particles, 1935."""
    return -exp(-x) / x


@op
def maxwell_boltzmann(x: Tensor):
    """Maxwell, Illustrations of the dynamical theory of gases, 1860."""
    return x**2 * exp(-(x**2) / 2)


@op
def lorentz_factor(x: Tensor):
    """Lorentz, Electromagnetic phenomena in a system moving with any velocity, 1904."""
    return 1 / sqrt(1 - x**2)


@op
def kinetic_energy(x: Tensor):
    """Einstein, Zur Elektrodynamik bewegter Körper, 1905, section 10: gamma - 1."""
    return 1 / sqrt(1 - x**2) - 1


@op
def kinetic_energy_of_momentum(x: Tensor):
    """The same, of the momentum."""
    return sqrt(1 + x**2) - 1


@op
def velocity_addition(u: Tensor, v: Tensor):
    """Einstein, Zur Elektrodynamik bewegter Körper, 1905, section 5."""
    return (u + v) / (1 + u * v)


@op
def doppler(x: Tensor):
    """Einstein, Zur Elektrodynamik bewegter Körper, 1905, section 7."""
    return sqrt((1 + x) / (1 - x))


@op
def van_der_waals(volume: Tensor, temperature: Tensor):
    """Van der Waals, Over de continuiteit van den gas- en vloeistoftoestand, 1873, reduced."""
    return 8 * temperature / (3 * volume - 1) - 3 / volume**2


@op
def butler_volmer(x: Tensor, alpha: float = 0.5):
    """Butler, Studies in heterogeneous equilibria, 1924."""
    return exp(alpha * x) - exp(-(1 - alpha) * x)


@op
def michaelis_menten(x: Tensor, k: float = 0.7):
    """Michaelis & Menten, Die Kinetik der Invertinwirkung, 1913."""
    return x / (k + x)


@op
def hill(x: Tensor, k: float = 0.7):
    """Hill, The possible effects of the aggregation of the molecules of haemoglobin, 1910, for four sites."""
    return x**4 / (k**4 + x**4)


@op
def arrhenius(x: Tensor):
    """Arrhenius, Über die Reaktionsgeschwindigkeit bei der Inversion von Rohrzucker, 1889."""
    return exp(-1 / x)


@op
def nernst(outside: Tensor, inside: Tensor):
    """Nernst, Die elektromotorische Wirksamkeit der Jonen, 1889."""
    return log(outside / inside)


@op
def ghk_flux(v: Tensor, inside: Tensor, outside: Tensor):
    """Hodgkin & Katz, The effect of sodium ions on the electrical activity of the giant axon, 1949."""
    return v * (inside - outside * exp(-v)) / (1 - exp(-v))


@op
def alpha_n(x: Tensor):
    """Hodgkin & Huxley, A quantitative description of membrane current, 1952, equation 12."""
    return 0.01 * (10 - x) / (exp((10 - x) / 10) - 1)


@op
def alpha_m(x: Tensor):
    """Hodgkin & Huxley, A quantitative description of membrane current, 1952, equation 20."""
    return 0.1 * (25 - x) / (exp((25 - x) / 10) - 1)


@op
def beta_h(x: Tensor):
    """Hodgkin & Huxley, A quantitative description of membrane current, 1952, equation 24."""
    return 1 / (exp((30 - x) / 10) + 1)


@op
def gompertz(x: Tensor, b: float = 2.0, c: float = 0.5):
    """Gompertz, On the nature of the function expressive of the law of human mortality, 1825."""
    return exp(-b * exp(-c * x))


@op
def logistic_growth(x: Tensor, k: float = 3.0, start: float = 0.1):
    """Verhulst, Notice sur la loi que la population suit dans son accroissement, 1838."""
    return k / (1 + (k - start) / start * exp(-x))


@op
def richards(x: Tensor, nu: float = 2.0):
    """Richards, A flexible growth function for empirical use, 1959."""
    return (1 + exp(-x)) ** (-1 / nu)


@op
def bertalanffy(x: Tensor):
    """Von Bertalanffy, A quantitative theory of organic growth, 1938."""
    return (1 - exp(-x)) ** 3


@op
def soliton(x: Tensor):
    """Korteweg & de Vries, On the change of form of long waves, 1895."""
    return 1 / cosh(x) ** 2


@op
def toda(x: Tensor):
    """Toda, Vibration of a chain with nonlinear interaction, 1967."""
    return exp(-x) + x - 1


@op
def fene(x: Tensor):
    """Warner, Kinetic theory and rheology of dilute suspensions of finitely extendible dumbbells, 1972."""
    return -log(1 - x**2) / 2


@op
def breit_wigner(x: Tensor):
    """Breit & Wigner, Capture of slow neutrons, 1936, relativistic."""
    return 1 / ((x**2 - 1) ** 2 + 0.01)


@op
def richardson(x: Tensor):
    """Richardson, The emission of electrons from tungsten at high temperatures, 1913."""
    return x**2 * exp(-1 / x)


@op
def kepler(x: Tensor, e: float = 0.9):
    """Kepler, Epitome astronomiae Copernicanae, 1621."""
    return x - e * sin(x)


@op
def fresnel_slit(x: Tensor):
    """Diffraction at a slit  (Born & Wolf, Principles of optics, section 8.5)."""
    return (sin(x) / x) ** 2


@op
def haversine(x: Tensor):
    """Inman, Navigation and nautical astronomy, 1835: the haversine."""
    return (1 - cos(x)) / 2
