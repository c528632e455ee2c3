// Package sqldb keeps tables in a database: SQLite in a file, or PostgreSQL at a URL. It connects,
// migrates, runs transactions, numbers changes so that other processes hear of them, and turns the
// errors of both databases into sentences. Each package that stores something has its own tables and
// writes its own statements, which are the same for both databases.
//
// DB.Write returns nil only after the commit is on the disk. Changes are made one after the other,
// also when several processes use the database. A migration is one transaction, so a kill in the
// middle leaves the old tables.
//
// What people can do something about is an *Error: a sentence and the next step. All other errors are
// those of the caller's functions and of the drivers.
//
// A DB is safe for concurrent use. No other package imports the drivers (docs/adr/0021). The package
// knows nobody's tables but the three that it needs itself.
package sqldb
