"""A web page over the output topics, or over their messages in files: what is known, and how it is served."""
