"""What a session is: its rows, its clock, its trial, its names and the changes of its options."""
