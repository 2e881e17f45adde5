"""Record files from and to Parquet, CSV, JSON lines, NumPy files and directories of images."""
