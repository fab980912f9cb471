"""What people see: phrases, number formats, the state read from messages, pages, reports, findings."""
