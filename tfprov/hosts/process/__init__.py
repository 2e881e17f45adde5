"""The process runtime: each task is a supervised process of this machine."""
