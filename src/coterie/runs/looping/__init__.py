"""What driving a loop takes beside driving a run: its prompts, reading its plan again, the files of its waves."""
