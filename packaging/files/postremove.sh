#!/bin/sh
# Removes the data of the servers if Debian purges the package. The script does not remove the
# user dragoman. Otherwise another user could get the same user id, and with it the files that
# are left.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/dragoman
fi
