"""The Docker Engine API: answers as checked values, connections to an engine, pipelined questions, and the docker SDK."""
