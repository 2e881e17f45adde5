"""What ansible-vault encrypted, and what is secret."""
