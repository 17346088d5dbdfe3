"""`python -m cvflows`: the command line."""

import sys

from cvflows.cli import main

sys.exit(main())
