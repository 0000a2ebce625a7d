"""Surveys data sets of boxes."""

from hires.data.checks.survey import Shown, survey

SHOWN = Shown((32, 32), "window", 8)
QUIET = ("smaller-than-window", "similar", "blank")


def surveyed(settings, shown=SHOWN):
    return survey(settings, shown, lambda done, total: None)


def seen(settings, shown=SHOWN):
    return {one.code: one for one in surveyed(settings, shown).findings if one.code not in QUIET}
