"""Agents in YAML files."""
