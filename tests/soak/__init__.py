"""A continuous run under a seeded storm of kills, freezes and damage: `make soak`."""
