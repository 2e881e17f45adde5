"""The command `tfprov inventory`: show, explain and edit an inventory."""
