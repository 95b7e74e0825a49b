"""For people with a table: scikit-learn classes, fairness, models made from files, and the command line."""
