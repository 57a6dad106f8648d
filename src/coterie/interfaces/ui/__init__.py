"""The page, which shows and steers runs in a browser.

`serve.py` starts and ends the server, `access.py` decides who may speak to it, `routes.py` is the JSON API, `stream.py`
sends changes, `feeds.py` has what is sent, `actions.py` acts on runs, and `page/` is what the browser loads. It reads
runs as every reader does (`coterie.execution.runs.repository`) and folds nothing itself: it shows views.

Other packages import `serve`, `single_file`; the rest is internal.
"""
