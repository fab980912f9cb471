"""Send chosen incidents and alarms to a webhook, signed, until the webhook accepts them."""
