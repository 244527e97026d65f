"""Studies: from a question to a table, a figure and a page. README.md describes the interface."""


def __getattr__(name):
    """Study and runs need pandas; modules such as study.statistics do not."""
    if name == "Study":
        from study.study import Study
        return Study
    if name == "runs":
        from study.judging import runs
        return runs
    raise AttributeError(name)
