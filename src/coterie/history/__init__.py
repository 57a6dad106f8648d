"""What happened: the journal, the engines that decide from it, and the views that fold it."""
