"""What tests of several folders share: warm interpreters, clusters, engines, hosts."""
