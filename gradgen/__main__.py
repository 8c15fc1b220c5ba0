"""`python -m gradgen`, the same as the command `gradgen`."""

from gradgen.cli import main

if __name__ == "__main__":
    main()
