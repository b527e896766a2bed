"""What the machine that carries the instances is, and how its instances are made."""
