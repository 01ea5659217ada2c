"""Serve predictions with honest confidence over HTTP, with a page that shows them.

``calibrant serve RUN`` starts the service. :func:`app` returns it as an ASGI application, which you
can mount into an application that you already have.
"""

from calibrant.serving.application import app
from calibrant.serving.requests import Limits

__all__ = ["Limits", "app"]
