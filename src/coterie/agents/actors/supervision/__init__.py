"""Supervision by the rules of Erlang/OTP: when and in which order children restart, and when a supervisor gives up."""
