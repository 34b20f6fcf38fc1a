"""A job under fire: TaskManagers are killed every few seconds, then it is checked what the job has promised.

``./dev chaos --seconds 120 --store sqlite``; see :mod:`jobs.chaos.check` for what is checked.
"""
