"""docs/add-a-method.md: its code works unchanged."""

import doctest
import re
import sys
import types
from pathlib import Path

import calibrant.methods
from calibrant.methods import MethodEntry, create

GUIDE = Path(__file__).parents[2] / "docs" / "add-a-method.md"


def test_the_three_files_of_the_guide(monkeypatch):
    method, line, test = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    module = types.ModuleType("calibrant.methods.logit_norm")
    exec(method, module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert doctest.testmod(module).failed == 0
    row = eval("{" + line + "}", {"MethodEntry": MethodEntry})
    monkeypatch.setattr(calibrant.methods, "METHODS", {**calibrant.methods.METHODS, **row})
    assert create("logit_norm", weight=0.1).weight == 0.1
    names = {}
    exec(test, names)
    names["test_by_hand"]()
