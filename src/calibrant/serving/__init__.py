"""A service: predictions with honest confidence over HTTP, and a page that shows them.

``calibrant serve RUN`` starts it. :func:`app` returns it as an ASGI application, to be mounted into
an application that you already have.
"""

from calibrant.serving.application import app
from calibrant.serving.requests import Limits

__all__ = ["Limits", "app"]
