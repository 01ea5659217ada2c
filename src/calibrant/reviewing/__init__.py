"""Let people review what a model is unsure of: order documents, save and export decisions.

``calibrant review FILE --run RUN`` opens the page.
"""

from calibrant.reviewing.decisions import Decision, Decisions
from calibrant.reviewing.documents import Document, Span, by_gain, expected_gain
from calibrant.reviewing.writing import FORMATS, write_reviewed

__all__ = [
    "FORMATS",
    "Decision",
    "Decisions",
    "Document",
    "Span",
    "by_gain",
    "expected_gain",
    "write_reviewed",
]
