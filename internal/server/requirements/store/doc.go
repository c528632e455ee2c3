// Package store keeps epics, user stories, acceptance criteria, requirements, relations, comments
// and prompts in a database: SQLite in a file, or PostgreSQL at a URL. Package sqldb opens the
// database, and says what a transaction guarantees; the tables and the rules are here.
//
// A method that makes a change returns nil only when the change is on the disk. Each change has a
// number, so that other processes can find out what has changed. Items and comments are never deleted,
// so their ids stay valid.
//
// The lengths of texts and pages, and the numbers of rows, are limited. If a client can do
// something about an error, the error is an *Error, which contains a sentence and the next step.
// All other errors come from the database.
//
// A Store is safe for concurrent use. Only package requirements and package cli import this package.
package store
