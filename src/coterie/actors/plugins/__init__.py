"""Extend a system: providers of models, tools for agents, exporters of spans, and stores of states.

`loading` makes the plugins that a plan names, `plugins` holds those of a system. `router` is `self.llm` of an agent and
`toolbox` its `self.tools`. `providers` and `litellm` call models, `console` and `otlp` export spans.
"""
