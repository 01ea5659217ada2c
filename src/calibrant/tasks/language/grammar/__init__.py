"""The two domains of the embedded corpus.

Every name is put together from parts written for it. No name and no template of one domain occurs
in the other, which a test checks.
"""

from calibrant.tasks.language.grammar.domain import Domain
from calibrant.tasks.language.grammar.news import NEWS
from calibrant.tasks.language.grammar.posts import POSTS

__all__ = ["NEWS", "POSTS", "Domain"]
