"""Playbooks: parsed, checked, and run step by step."""
