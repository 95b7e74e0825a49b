"""Rows and files over many devices and several processes: what stands behind `Rows` and `Parquet` where they have a mesh."""
