"""The measures: from an estimator's cells and sums to values, or to the reason why there is none.

A measure is declared where its function stands (`declaration`): name, what it is made of, range, which way is
better, help, formula and source. All else reads the `registry`: the loops that fill a column for each
(`table`), configuration, messages, signals, objectives, exporter, dashboard and the tables of
`docs/reference/measures.md`.
"""
