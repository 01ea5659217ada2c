"""Compare the records of many runs, with intervals and tests.

``build_study(read_all(paths))`` builds the study, ``write_study`` writes it to disk. A study is a
pure function of the records: the same records in any order give the same bytes.
"""

from calibrant.study.study import Extra, Study, StudyInputs, build_study, read_all, read_titles
from calibrant.study.writing import write_study

__all__ = ["Extra", "Study", "StudyInputs", "build_study", "read_all", "read_titles", "write_study"]
