"""`threadkeep demo`: plays one recorded session through the real gateway and checks what is left of it."""
