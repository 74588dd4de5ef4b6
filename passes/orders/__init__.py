"""What a program does by the order of its elements, where it says so in a roundabout way."""
