"""What a run leaves on disk, and how it is found again. No torch here: tables over many runs stay quick."""
