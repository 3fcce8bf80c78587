"""python -m monro."""

from monro.cli import main

main()
