// Package store keeps epics, user stories, acceptance criteria, requirements, their relations and
// comments, and prompts. It has one SQL implementation for two databases: SQLite in a file, and
// PostgreSQL by URL.
//
// A method that changes something returns nil only after the database has committed the change and
// has been told to write it to the disk. One change happens at a time, also across processes. Each
// change has a number, so that other processes on the same database can find what changed. Items
// and comments are never deleted, so their ids stay valid.
//
// Texts, pages and numbers of rows are bounded. Failures that a client can act on are of the type
// *Error, with a sentence and the next step. All other errors come from the database.
//
// A Store is safe for concurrent use. It starts no goroutines of its own; the drivers may. It
// imports no other package of the project, and only the requirements server imports it.
package store
