"""The report of a table: one HTML file that needs nothing else."""

from xmcap.scoring.report.page import write_report

__all__ = ["write_report"]
