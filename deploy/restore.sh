#!/bin/sh
# Restore runs from an archive of backup.sh: restore.sh ARCHIVE.tar.gz STATE_DIR
#
# Runs that are there already stay as they are.
set -eu
umask 077
mkdir -p "$2"
tar -C "$2" --skip-old-files -xzf "$1"
