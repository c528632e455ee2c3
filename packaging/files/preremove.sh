#!/bin/sh
# Stops and disables the service before the package is removed, but not before an update. For
# a removal, Debian passes "remove" and Red Hat passes 0.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now dragoman.service || true
	fi
	;;
esac
