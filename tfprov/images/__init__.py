"""Images and code, content-addressed: built, stored and delivered, so that only changed layers are sent."""
