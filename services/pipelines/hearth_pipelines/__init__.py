"""Start upstream's server of pipelines so that nothing is fetched, moved or changed.

Of this package a pipeline may use `hearth_pipelines.ask`.
"""
