"""ansible-vault: decryption, passwords, and the masking of secrets."""
