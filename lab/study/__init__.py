"""From a question to runs."""
