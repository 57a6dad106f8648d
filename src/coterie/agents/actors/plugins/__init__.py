"""Plugins of a system: model providers, tools for agents, span exporters, and state stores.

`loading` makes the plugins that a plan names, and `plugins` holds those of a system. `router` is an agent's `self.llm`
and `toolbox` its `self.tools`. `providers` and `litellm` call models, `console` and `otlp` export spans.
"""
