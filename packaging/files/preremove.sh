#!/bin/sh
# Stops and disables the service before its removal, and not before an update. Debian says
# "remove", Red Hat says 0.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now dragoman.service || true
	fi
	;;
esac
