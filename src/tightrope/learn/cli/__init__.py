"""The command line: it parses and prints, and leaves the work to the library.

A command imports the library when it is called, so that `tightrope --help` answers at once.
"""
