"""Directories on file systems that outlive a host (S3, HDFS, Google Cloud Storage), through fsspec."""
