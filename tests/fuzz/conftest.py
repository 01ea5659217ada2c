"""The modules of the campaign import each other by name, as its program does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
