"""The fair classifier, and what it is made of."""
