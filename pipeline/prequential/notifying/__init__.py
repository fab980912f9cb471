"""Incidents and alarms to a webhook: which, in which form, signed, and sent until they are taken."""
