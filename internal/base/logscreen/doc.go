// Package logscreen writes log records for the people who watch a terminal. Programs get the same
// records as JSON or as key=value from the handlers of log/slog.
//
// A record begins with a sentence. What to do stands below it, then the words of the server that show
// why, and in dim print the attributes that say something new. The sentence comes from the record's
// attributes, as [failure.Failure.Attrs] makes them, or from the table in this package, which says for a
// record's message how to put its attributes into words. No text is parsed. A record that the table
// doesn't know shows its message and all of its attributes.
//
// Of a failure that repeats, people see the first record, and a count when it ends or changes. Which
// records are repetitions is in the table too. The others are shown at slog.LevelDebug.
//
// Texts in records may come from a peer. They are made safe to print, and every line of a record but
// its first is indented, so a peer can imitate neither a record nor a message of Dragoman.
package logscreen
