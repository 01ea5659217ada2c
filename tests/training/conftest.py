"""Lets the tests of this folder share ``algorithm_one``, the paper's algorithm in plain steps."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
