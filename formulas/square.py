from sympy import symbols

x = symbols("x")

# The square of a number, in the bare form: an expression with a name  (Euclid, Elements, book II).
square = x**2
