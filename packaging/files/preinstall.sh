#!/bin/sh
# Creates the user of the service before the files that its group may read are unpacked.
set -e

if ! getent group dragoman >/dev/null; then
	groupadd --system dragoman
fi
if ! getent passwd dragoman >/dev/null; then
	shell=/usr/sbin/nologin
	[ -x "$shell" ] || shell=/sbin/nologin
	useradd --system --gid dragoman --home-dir /var/lib/dragoman --no-create-home \
		--shell "$shell" --comment "Dragoman" dragoman
fi
