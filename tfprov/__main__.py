"""`python -m tfprov` is `tfprov`."""

from tfprov.cli.main import main

main()
