"""A small model server with the directories and the REST API of TensorFlow Serving, for images without it."""
