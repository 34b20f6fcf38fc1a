"""Entry point of ``python -m jobs.benchmarks``."""

import sys

if sys.argv[1:2] == ["external"]:
    from jobs.benchmarks.external import main

    sys.exit(main(sys.argv[2:]))

if sys.argv[1:2] == ["cel"]:
    from jobs.benchmarks.cel import main

    sys.exit(main(sys.argv[2:]))

if sys.argv[1:2] == ["memory"]:
    from jobs.benchmarks.long_term_memory import main

    sys.exit(main(sys.argv[2:]))

if sys.argv[1:2] == ["scale"]:
    from jobs.benchmarks.scale import main

    sys.exit(main(sys.argv[2:]))

from jobs.benchmarks.cli import main

sys.exit(main())
