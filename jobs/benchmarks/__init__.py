"""What the agent costs against a hand-written PyFlink function doing the same: ``python -m jobs.benchmarks echo``.

Both engines get the same source, key, configuration and sink; only the operator between them differs. Each run is a
process of its own, because a JVM that has run one job is not the JVM the other engine got.
"""
