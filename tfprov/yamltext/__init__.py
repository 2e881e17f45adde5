"""YAML to nodes that know their line, and what is wrong with it in the words of someone who wants to mend it."""
