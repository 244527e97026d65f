"""Studies: from a question to a table, a figure and a page. guides/studies.md describes the interface."""


def __getattr__(name):
    """Study and runs need pandas; modules such as study.statistics do not."""
    if name == "Study":
        from study.study import Study
        return Study
    if name == "open":
        from study.study import Opened
        return Opened
    if name == "runs":
        from study.judging import runs
        return runs
    raise AttributeError(name)
