"""Supervision by Erlang/OTP's rules: when children are restarted, in which order, and when a supervisor gives up."""
