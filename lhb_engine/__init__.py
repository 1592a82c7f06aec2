"""Long-horizon bandits: the mathematics. Arrays in, arrays out; no clock, no I/O."""
