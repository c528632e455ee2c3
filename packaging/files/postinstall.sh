#!/bin/sh
# Restarts the service after an update, if it is running. The script does not enable or start
# the service, because most people install the package for the command. The service also needs
# servers in /etc/dragoman/dragoman.yaml first.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	systemctl try-restart dragoman.service || true
fi
