"""Names of streams, models, classes and segments, their rows in the tables, and the entities to evaluate."""
