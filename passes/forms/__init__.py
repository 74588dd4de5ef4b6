"""What a program does, where it says so in several operations or in a loop."""
