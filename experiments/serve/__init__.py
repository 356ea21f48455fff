"""The search page: formulas and entities, for people and as a JSON API.

`__main__`: command line. `app`: the web application; `api` and `pages`: its routes; `problems`,
`limits`, `metrics`: errors, bounds, counters. `formulas`, `entities`: a loaded model with its
collection; `batching`: their queue to the device. `converter` and `worker`: LaTeX in a process of
its own; `mathml`: the markup that a page may show. `docstring_formulas`: the collection that is
made where none is given.
"""
