# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelace ...` is the tilelace command, too."""
import sys

from tilelace_command import main

if __name__ == "__main__":
    sys.exit(main())
