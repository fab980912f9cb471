"""The configuration as it is read: YAML, names and keys, with file and line for every complaint."""
