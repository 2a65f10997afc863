"""The report of a study: one HTML page that works offline, a summary in Markdown, tables and figures as files."""

from bitcycle.lab.report.section import StudyInfo
from bitcycle.lab.report.writing import write_report

__all__ = ["StudyInfo", "write_report"]
