#!/bin/sh
# Back up the runs of a state directory: backup.sh STATE_DIR ARCHIVE.tar.gz
#
# Journals only grow, so a copy of a run under way is a valid journal up to some record; a line that was cut off is put
# aside when the run is resumed. Secrets of runs are in the archive: keep it as private as the directory.
set -eu
umask 077
tar -C "$1" --warning=no-file-changed --exclude=lock --exclude=control.json -czf "$2.part" runs || [ $? -eq 1 ]
mv "$2.part" "$2"
