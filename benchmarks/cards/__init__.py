"""Cards: what a data set and an index library say of themselves, as frozen typed values.

A folder is the registry: every `datasets/*.yml` and `algorithms/*/algorithm.yml` is found, nothing is listed.
"""
