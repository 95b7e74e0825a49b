"""What is known of a point, and how surely: functions of a problem, rows, a point and multipliers."""
