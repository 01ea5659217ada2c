"""The report of an audit: one HTML file that opens offline, in light and dark, on any screen."""

from calibrant.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
