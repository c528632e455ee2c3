#!/bin/sh
# Creates the user and the group of the service. This must happen before the files are
# unpacked, because the group owns some of them.
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
