#!/bin/sh
# Removes the data of the servers, if Debian purges the package. The user stays. Otherwise
# another user could get its number, and with it its files.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/dragoman
fi
