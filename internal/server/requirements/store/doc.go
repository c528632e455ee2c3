// Package store keeps epics, user stories, acceptance criteria, requirements, relations, comments
// and prompts in a database. The same code works with SQLite in a file and with PostgreSQL at a
// URL.
//
// A method that makes a change returns nil only after the database has committed the change. The
// connections are configured so that a commit returns only when the change is on the disk. Changes
// are made one after the other, even if several processes use the database. Each change has a
// number, so that other processes can find out what has changed. Items and comments are never
// deleted, so their ids stay valid.
//
// The lengths of texts and pages, and the numbers of rows, are limited. If a client can do
// something about an error, the error is an *Error, which contains a sentence and the next step.
// All other errors come from the database.
//
// A Store is safe for concurrent use. The package starts no goroutines of its own, but the drivers
// may start some. It imports no other package of Dragoman. Only package requirements and package
// cli import it.
package store
