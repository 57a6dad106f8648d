"""Actors that answer messages, and the supervisors that keep them running, by the rules of Erlang/OTP.

An actor is known by its name, never by an object, so that it may live in another process. Lifecycle events go to a
sink as records; this package knows no journal and no run.
"""
