"""What the other folders share; it uses none of them."""
