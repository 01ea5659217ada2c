"""A study: what the records of many runs say together, with intervals and tests.

``build_study(read_all(paths))`` makes it, ``write_study`` puts it on disk. It is a pure function
of the records: the same ones, in whatever order, give the same bytes.
"""

from calibrant.study.reading import read_all
from calibrant.study.study import Extra, Study, StudyInputs, build_study
from calibrant.study.writing import write_study

__all__ = ["Extra", "Study", "StudyInputs", "build_study", "read_all", "write_study"]
