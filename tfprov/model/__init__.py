"""The nouns: frozen values that every other package passes around. Nothing here reads, writes or decides."""
