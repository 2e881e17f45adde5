"""What record files hold: whether they are whole, statistics of their columns, and where their records begin."""
