"""`make bench`: what the jobs cost in processor time, wall time and memory, on a reference set that anyone can make again."""
