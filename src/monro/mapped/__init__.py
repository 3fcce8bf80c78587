"""Rows and labels in memory-mapped files, which may be larger than memory.

SciPy first converts `indices` and `indptr` of a CSR matrix to one common type. The `indices` here
are int32 and `indptr` is int64, so any SciPy operation on a whole mapped matrix would copy all
`indices` into memory. The functions of this package work on one chunk of rows at a time instead;
they accept matrices in memory as well.
"""
