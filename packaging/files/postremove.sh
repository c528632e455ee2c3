#!/bin/sh
# Removes what the servers stored, if Debian purges the package. The user stays, so that no
# other user ever gets its number and its files.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/dragoman
fi
