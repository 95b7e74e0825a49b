"""Pages for people: a run, a certificate or a reproduction as HTML that stands alone, without a network or a script."""
