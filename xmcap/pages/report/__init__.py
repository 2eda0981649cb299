"""The report of a result: one self-contained HTML file."""

from xmcap.pages.report.page import write_report

__all__ = ["write_report"]
