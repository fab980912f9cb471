"""Incidents: alarms of one change of one model are one incident, with levels, causes and an end."""
