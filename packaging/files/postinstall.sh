#!/bin/sh
# Restarts the service after an update, if it runs. It does not enable or start it: most
# people install the package for the command, and the service is useless without servers in
# /etc/dragoman/dragoman.yaml.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	systemctl try-restart dragoman.service || true
fi
