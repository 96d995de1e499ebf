"""``python -m tessera_blas``: see `tessera_blas._command_line`. The program gets this module's namespace."""

from tessera_blas._command_line import main

main()
