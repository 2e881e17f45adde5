"""Pure verbs on the way from an inventory to a plan: values in, values out, no host involved."""
